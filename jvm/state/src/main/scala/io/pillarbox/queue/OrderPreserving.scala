package io.pillarbox.queue

import io.pillarbox.api.{Bytes, InputView, OutputView}

/**
 * Numbers as bytes that sort, unsigned and lexicographically, as the numbers do: big-endian, the sign bit
 * flipped.
 */
private[pillarbox] object OrderPreserving {

  def writeLong(value: Long, out: OutputView): Unit = out.writeLong(value ^ Long.MinValue)

  def readLong(in: InputView): Long = in.readLong() ^ Long.MinValue

  def writeInt(value: Int, out: OutputView): Unit = out.writeInt(value ^ Int.MinValue)

  def readInt(in: InputView): Int = in.readInt() ^ Int.MinValue

  /** The bytes of the key group in front of every key, an unsigned number. */
  final val KeyGroupBytes = 2

  /** The smallest key of a key group; for the group after the last, the end of all keys. */
  def keyGroupStart(keyGroup: Int): Array[Byte] = {
    val out = new OutputView(KeyGroupBytes)
    out.writeShort(keyGroup)
    out.toByteArray
  }

  /**
   * The first eight bytes from `offset` on as a number that compares, signed, as they do; a shorter key is
   * filled up with zeros, so where two numbers are equal, the bytes decide.
   */
  private[queue] def leadOf(key: Array[Byte], offset: Int): Long =
    if (key.length >= offset + 8) Bytes.getLong(key, offset) ^ Long.MinValue
    else {
      var lead = 0L
      for (i <- offset until key.length) lead |= (key(i) & 0xffL) << (56 - 8 * (i - offset))
      lead ^ Long.MinValue
    }
}

/**
 * Turns elements into bytes whose unsigned lexicographic order is the order of the elements, and back.
 *
 * An element of a smaller priority must have smaller bytes: write the priority first, with
 * [[OrderPreserving.writeLong]]. What follows breaks ties and may vary in length. Equal elements must have
 * equal bytes, and only they.
 */
private[pillarbox] trait OrderPreservingSerializer[T] {
  def serialize(element: T, out: OutputView): Unit

  /** Reads what `serialize` wrote: `in` stands at its first byte and ends with its last. */
  def deserialize(in: InputView): T
}
