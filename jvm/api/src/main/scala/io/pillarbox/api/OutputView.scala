package io.pillarbox.api

import java.nio.charset.StandardCharsets.UTF_8
import java.util

/**
 * A byte array that grows as it is written, and is reused: [[clear]] keeps the array. A `ByteBuffer` doesn't
 * grow, and a `DataOutputStream` writes numbers byte by byte.
 *
 * Numbers are big-endian. Not thread-safe.
 *
 * @param initialCapacity in bytes
 */
final class OutputView(initialCapacity: Int = 256) {
  private var bytes = new Array[Byte](math.max(initialCapacity, 16))
  private var position = 0

  /** The bytes, valid up to [[length]] and until the next write. */
  def array: Array[Byte] = bytes

  def length: Int = position

  def clear(): Unit = position = 0

  /** Drops what was written behind `length`. */
  private[pillarbox] def truncate(length: Int): Unit = position = length

  /** Leaves out `count` bytes, to be written later; until then their content is undefined. */
  private[pillarbox] def skip(count: Int): Unit = {
    reserve(count)
    position += count
  }

  def toByteArray: Array[Byte] = util.Arrays.copyOf(bytes, position)

  /**
   * Makes room for `more` bytes.
   *
   * @throws IllegalArgumentException if that is over 2 GiB in all
   */
  private[pillarbox] def reserve(more: Int): Unit = if (bytes.length - position < more) grow(more)

  /** Lets go of the array if it grew over `limit` bytes. */
  private[pillarbox] def shrinkTo(limit: Int): Unit = if (bytes.length > limit) {
    bytes = new Array[Byte](limit)
    position = 0
  }

  def writeByte(value: Int): Unit = {
    reserve(1)
    bytes(position) = value.toByte
    position += 1
  }

  def writeShort(value: Int): Unit = {
    reserve(2)
    bytes(position) = (value >>> 8).toByte
    bytes(position + 1) = value.toByte
    position += 2
  }

  def writeInt(value: Int): Unit = {
    reserve(4)
    Bytes.putInt(bytes, position, value)
    position += 4
  }

  def writeLong(value: Long): Unit = {
    reserve(8)
    Bytes.putLong(bytes, position, value)
    position += 8
  }

  def writeDouble(value: Double): Unit = writeLong(java.lang.Double.doubleToLongBits(value))

  def writeBoolean(value: Boolean): Unit = writeByte(if (value) 1 else 0)

  /** Writes an unsigned LEB128: 1 to 5 bytes, small numbers short. */
  def writeVarInt(value: Int): Unit = {
    reserve(5)
    var rest = value
    while ((rest & ~0x7f) != 0) {
      bytes(position) = (rest | 0x80).toByte
      position += 1
      rest >>>= 7
    }
    bytes(position) = rest.toByte
    position += 1
  }

  def writeBytes(source: Array[Byte], offset: Int, length: Int): Unit = {
    reserve(length)
    System.arraycopy(source, offset, bytes, position, length)
    position += length
  }

  def writeBytes(source: Array[Byte]): Unit = writeBytes(source, 0, source.length)

  /** Writes the length in bytes, then UTF-8. */
  def writeUtf8(value: String): Unit = {
    val encoded = value.getBytes(UTF_8)
    writeVarInt(encoded.length)
    writeBytes(encoded)
  }

  /** Opens a region that its length will stand before; returns the argument of [[endSized]]. Regions nest. */
  private[pillarbox] def beginSized(): Int = {
    writeByte(0)
    position
  }

  /** Closes the region and puts its length before it as a var-int. Regions under 128 bytes are not moved. */
  private[pillarbox] def endSized(start: Int): Unit = {
    val size = position - start
    if (size < 0x80) bytes(start - 1) = size.toByte
    else {
      val prefix = OutputView.varIntLength(size)
      reserve(prefix - 1)
      System.arraycopy(bytes, start, bytes, start - 1 + prefix, size)
      position = start - 1
      writeVarInt(size)
      position += size
    }
  }

  private def grow(more: Int): Unit = {
    val needed = position.toLong + more
    require(needed <= OutputView.MaxLength, s"Serialised data of $needed bytes is over the limit of 2 GiB")
    val wanted = math.min(math.max(needed, bytes.length * 2L), OutputView.MaxLength)
    bytes = util.Arrays.copyOf(bytes, wanted.toInt)
  }
}

object OutputView {
  private val MaxLength = Int.MaxValue - 8L

  /** The size over which a reused buffer of the backends is given back to the collector after its use. */
  private[pillarbox] final val IdleBytes: Int = 1 << 20

  private def varIntLength(value: Int): Int = (38 - Integer.numberOfLeadingZeros(value | 1)) / 7
}
