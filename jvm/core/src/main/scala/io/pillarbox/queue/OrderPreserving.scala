package io.pillarbox.queue

import io.pillarbox.state.serialization.{InputView, OutputView}

/** Numbers as bytes that sort, unsigned and lexicographically, as the numbers do: big-endian, the sign bit flipped. */
object OrderPreserving {

  def writeLong(value: Long, out: OutputView): Unit = out.writeLong(value ^ Long.MinValue)

  def readLong(in: InputView): Long = in.readLong() ^ Long.MinValue

  def writeInt(value: Int, out: OutputView): Unit = out.writeInt(value ^ Int.MinValue)

  def readInt(in: InputView): Int = in.readInt() ^ Int.MinValue

  /** An unsigned number of `width` bytes (1 or 2): the key group in front of every key. */
  def writeKeyGroup(keyGroup: Int, width: Int, out: OutputView): Unit =
    if (width == 1) out.writeByte(keyGroup) else out.writeShort(keyGroup)

  /**
   * How many bytes a key group takes in a key: 1 for up to 128 key groups, else 2. By their number, not by the one
   * at hand, so that all keys of a state agree.
   */
  def keyGroupWidth(maxKeyGroups: Int): Int = if (maxKeyGroups <= 128) 1 else 2

  /** The smallest key of a key group; of the one after the last: the end of all keys. */
  def keyGroupStart(keyGroup: Int, width: Int): Array[Byte] = {
    val out = new OutputView(width)
    writeKeyGroup(keyGroup, width, out)
    out.toByteArray
  }
}
