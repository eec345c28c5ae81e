package io.pillarbox.queue

import java.lang.invoke.{MethodHandles, VarHandle}
import java.nio.ByteOrder
import java.util.Arrays

/**
 * A growing byte array to which numbers are written so that their bytes sort as the numbers do.
 *
 * Big-endian with the sign bit flipped, hence negative numbers before positive ones. Reused from element to element.
 */
final class OrderPreservingOutput(initialCapacity: Int = 64) {
  private var bytes = new Array[Byte](initialCapacity)
  private var end = 0

  def reset(): Unit = end = 0

  def length: Int = end

  def toByteArray: Array[Byte] = Arrays.copyOf(bytes, end)

  def writeLong(value: Long): Unit = {
    val at = reserve(8)
    OrderPreservingOutput.Longs.set(bytes, at, value ^ Long.MinValue)
  }

  def writeInt(value: Int): Unit = {
    val at = reserve(4)
    OrderPreservingOutput.Ints.set(bytes, at, value ^ Int.MinValue)
  }

  def writeByte(value: Int): Unit = {
    val at = reserve(1)
    bytes(at) = value.toByte
  }

  /** Raw bytes, with neither length nor end mark: only for what stands last, or tells its own length. */
  def writeBytes(source: Array[Byte], offset: Int, count: Int): Unit = {
    val at = reserve(count)
    System.arraycopy(source, offset, bytes, at, count)
  }

  /** An unsigned number of `width` bytes (1 or 2), big-endian: the key group in front of every key. */
  def writeKeyGroup(keyGroup: Int, width: Int): Unit = {
    if (width == 2) writeByte(keyGroup >>> 8)
    writeByte(keyGroup)
  }

  private def reserve(count: Int): Int = {
    val at = end
    val needed = at + count
    if (needed < 0)
      throw new IllegalArgumentException(s"An element of more than 2 GiB: $at bytes and $count more")
    if (needed > bytes.length) bytes = Arrays.copyOf(bytes, math.max(needed, math.max(64, bytes.length << 1)))
    end = needed
    at
  }
}

object OrderPreservingOutput {
  private[queue] val Longs: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Long]], ByteOrder.BIG_ENDIAN)
  private[queue] val Ints: VarHandle =
    MethodHandles.byteArrayViewVarHandle(classOf[Array[Int]], ByteOrder.BIG_ENDIAN)
}
