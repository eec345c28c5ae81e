package io.pillarbox.api

import java.nio.charset.StandardCharsets.UTF_8

/**
 * Reads a region of a byte array, big-endian. Reused by [[wrap]]. Not thread-safe.
 *
 * Reading past the region throws IndexOutOfBoundsException.
 */
final class InputView {
  private var bytes: Array[Byte] = Array.emptyByteArray
  private var at = 0
  private var limit = 0

  def this(bytes: Array[Byte]) = {
    this()
    wrap(bytes, 0, bytes.length)
  }

  /** Reads from this region from now on. Does not copy the bytes. */
  def wrap(bytes: Array[Byte], offset: Int, length: Int): this.type = {
    this.bytes = bytes
    at = offset
    limit = offset + length
    this
  }

  /** The array under the view, for serializers whose value is a region of bytes; it is only valid for now. */
  def array: Array[Byte] = bytes

  def position: Int = at

  def remaining: Int = limit - at

  def skip(count: Int): Unit = advance(count): Unit

  def readByte(): Int = bytes(advance(1)).toInt

  def readShort(): Int = {
    val from = advance(2)
    ((bytes(from) & 0xff) << 8) | (bytes(from + 1) & 0xff)
  }

  def readInt(): Int = Bytes.getInt(bytes, advance(4))

  def readLong(): Long = Bytes.getLong(bytes, advance(8))

  def readDouble(): Double = java.lang.Double.longBitsToDouble(readLong())

  def readBoolean(): Boolean = readByte() != 0

  def readVarInt(): Int = {
    var result = 0
    var shift = 0
    var byte = 0
    while ({
      byte = readByte()
      result |= (byte & 0x7f) << shift
      shift += 7
      (byte & 0x80) != 0
    }) if (shift > 28) throw new IndexOutOfBoundsException(s"A number at byte $at is longer than 5 bytes")
    result
  }

  def readBytes(length: Int): Array[Byte] = {
    val from = advance(length)
    java.util.Arrays.copyOfRange(bytes, from, from + length)
  }

  def readUtf8(): String = {
    val length = readVarInt()
    new String(bytes, advance(length), length, UTF_8)
  }

  /** Moves on and returns where it was. */
  private def advance(count: Int): Int = {
    val from = at
    if (count < 0 || count > limit - from)
      throw new IndexOutOfBoundsException(s"$count bytes wanted at byte $from, ${limit - from} left")
    at = from + count
    from
  }
}
