package io.pillarbox.state.changelog

import java.io.OutputStream
import java.util.zip.CRC32C

import io.pillarbox.state.changelog.StateStreamFormat._
import io.pillarbox.state.serialization.OutputView

/**
 * Writes a snapshot or log, a block at a time. Keys and values are serialised straight into the block.
 *
 * A record: [[beginPut]] or [[beginRemove]], the composite key into [[out]], [[endKey]], and after a put the value into
 * `out` and [[endValue]]. [[finish]] at the end; without it the stream is unreadable, which is what a crash needs.
 */
private[state] final class StateStreamWriter(stream: OutputStream, header: StreamHeader) {
  private[this] val prelude = new OutputView(256)
  private[this] val frame = new OutputView(16)
  private[this] val checksum = new CRC32C
  private[this] var state = -1
  private[this] var lowest = 0
  private[this] var highest = 0
  private[this] var count = 0
  private[this] var region = 0
  private[this] var entries = 0L
  private[this] var removals = 0L
  private[this] var blocks = 0
  private[this] var written = 0L

  /** The records of the block, where keys and values go. */
  val out: OutputView = new OutputView(BlockSize + (BlockSize >> 2))

  writeHeader()

  /** The records that follow are of this state. */
  def beginState(id: Int): Unit = {
    flushBlock()
    state = id
  }

  def beginPut(keyGroup: Int): Unit = begin(1, keyGroup)

  def beginRemove(keyGroup: Int): Unit = {
    removals += 1
    begin(0, keyGroup)
  }

  def endKey(): Unit = {
    out.endSized(region)
    region = out.beginSized()
  }

  def endValue(): Unit = {
    out.endSized(region)
    end()
  }

  /** Ends a removal, instead of [[endKey]]. */
  def endRemove(): Unit = {
    out.endSized(region)
    end()
  }

  /** A record that is serialised already; null as value for a removal. */
  def record(
      key: Array[Byte],
      keyOffset: Int,
      keyLength: Int,
      value: Array[Byte],
      valueOffset: Int,
      valueLength: Int
  ): Unit = {
    val keyGroup = CompositeKey.keyGroup(key, keyOffset)
    if (value == null) beginRemove(keyGroup) else beginPut(keyGroup)
    out.writeBytes(key, keyOffset, keyLength)
    if (value == null) endRemove()
    else {
      endKey()
      out.writeBytes(value, valueOffset, valueLength)
      endValue()
    }
  }

  /** Writes what is left and the end mark, and flushes the stream. */
  def finish(): CommitSummary = {
    flushBlock()
    prelude.clear()
    prelude.writeByte(End)
    prelude.writeLong(entries)
    prelude.writeInt(blocks)
    writeBlock(prelude, null)
    stream.flush()
    CommitSummary(header.version, entries, written, removals)
  }

  private[this] def begin(put: Int, keyGroup: Int): Unit = {
    if (count == 0) {
      lowest = keyGroup
      highest = keyGroup
    } else if (keyGroup < lowest) lowest = keyGroup
    else if (keyGroup > highest) highest = keyGroup
    out.writeByte(put)
    region = out.beginSized()
  }

  private[this] def end(): Unit = {
    count += 1
    entries += 1
    if (out.length >= BlockSize) flushBlock()
  }

  private[this] def writeHeader(): Unit = {
    prelude.writeBytes(Magic)
    prelude.writeInt(Version)
    stream.write(prelude.array, 0, prelude.length)
    written += prelude.length
    prelude.clear()
    prelude.writeByte(Header)
    header.writeTo(prelude)
    writeBlock(prelude, null)
  }

  private[this] def flushBlock(): Unit = if (count > 0) {
    prelude.clear()
    prelude.writeByte(Records)
    prelude.writeVarInt(state)
    prelude.writeShort(lowest)
    prelude.writeShort(highest)
    prelude.writeVarInt(count)
    writeBlock(prelude, out)
    blocks += 1
    count = 0
    out.clear()
    out.shrinkTo(BlockSize * 16)
  }

  private[this] def writeBlock(first: OutputView, second: OutputView): Unit = {
    val length = first.length + (if (second == null) 0 else second.length)
    frame.clear()
    frame.writeInt(length)
    checksum.reset()
    checksum.update(frame.array, 0, 4)
    checksum.update(first.array, 0, first.length)
    if (second != null) checksum.update(second.array, 0, second.length)
    frame.writeInt(checksum.getValue.toInt)
    stream.write(frame.array, 0, frame.length)
    stream.write(first.array, 0, first.length)
    if (second != null) stream.write(second.array, 0, second.length)
    written += frame.length + length
  }
}
