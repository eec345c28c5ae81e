package io.pillarbox.queue

import java.nio.{BufferUnderflowException, ByteBuffer}
import java.util.Arrays

/** Reads what [[OrderPreservingOutput]] wrote. Reading past the end throws `BufferUnderflowException`. */
final class OrderPreservingInput {
  private var buffer = ByteBuffer.allocate(0)

  /** Starts over at `offset` of `bytes`, ending with the array. */
  def reset(bytes: Array[Byte], offset: Int): Unit =
    buffer = ByteBuffer.wrap(bytes, offset, bytes.length - offset)

  def readLong(): Long = buffer.getLong() ^ Long.MinValue

  def readInt(): Int = buffer.getInt() ^ Int.MinValue

  def readByte(): Byte = buffer.get()

  def remaining: Int = buffer.remaining

  def readBytes(count: Int): Array[Byte] = {
    if (count > remaining) throw new BufferUnderflowException
    val result = new Array[Byte](count)
    buffer.get(result)
    result
  }

  /** The bytes read from, for serialisers that read by themselves: start at `position`, then `skip`. */
  def array: Array[Byte] = buffer.array

  def position: Int = buffer.position()

  def skip(count: Int): Unit = {
    val _ = buffer.position(buffer.position() + count)
  }

  /** All that is left. */
  def readRest(): Array[Byte] = {
    val result = Arrays.copyOfRange(array, position, position + remaining)
    skip(remaining)
    result
  }
}
