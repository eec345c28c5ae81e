package io.pillarbox.state.changelog

import java.io.OutputStream
import java.util.zip.CRC32C

import io.pillarbox.api.OutputView
import io.pillarbox.state.changelog.StateStreamFormat._
import io.pillarbox.state.{CommitSummary, KeyGroupRange}

/**
 * Writes a snapshot or log, a block at a time. Keys and values are serialised straight into the block.
 *
 * A record is [[beginPut]] or [[beginRemove]], the composite key into [[out]], [[endKey]], and after a put
 * the value into `out` and [[endValue]]. [[finish]] at the end; without it the stream is unreadable, as it
 * must be after a crash.
 *
 * Records in no order of key groups go between [[beginGathering]] and [[endGathering]]: then each block holds
 * few groups, and a reader of some key groups passes over most of it.
 */
private[state] final class StateStreamWriter(stream: OutputStream, header: StreamHeader) {
  private val prelude = new OutputView(256)
  private val frame = new OutputView(16)
  private val checksum = new CRC32C
  private var state = -1
  private var lowest = 0
  private var highest = 0
  private var count = 0
  private var region = 0
  private var entries = 0L
  private var removals = 0L
  private var blocks = 0
  private var written = 0L

  private val block = Array(new OutputView(BlockSize + (BlockSize >> 2)))
  private var gathered: GatheredRecords = null
  private var target = block(0)

  /** The view that takes the key and the value of the current record. */
  def out: OutputView = target

  writeHeader()

  def beginState(id: Int): Unit = {
    flushBlock()
    state = id
  }

  /** @param expected the number of records, about */
  def beginGathering(range: KeyGroupRange, expected: Int): Unit = gathered =
    new GatheredRecords(range, expected)

  def endGathering(): Unit = {
    writeGathered()
    gathered = null
    target = block(0)
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

  /** Writes a serialised record; null as value for a removal. */
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
    writeBlock(prelude, block, 0, 0)
    stream.flush()
    CommitSummary(header.version, entries, written, removals)
  }

  private def begin(put: Int, keyGroup: Int): Unit = {
    if (gathered != null) target = gathered.begin(keyGroup)
    else widen(keyGroup)
    target.writeByte(put)
    region = target.beginSized()
  }

  private def widen(keyGroup: Int): Unit =
    if (count == 0) {
      lowest = keyGroup
      highest = keyGroup
    } else if (keyGroup < lowest) lowest = keyGroup
    else if (keyGroup > highest) highest = keyGroup

  private def end(): Unit =
    if (gathered == null) {
      count += 1
      if (target.length >= BlockSize) flushBlock()
    } else {
      gathered.end()
      if (gathered.bytes >= GatheredRecords.Limit) writeGathered()
    }

  private def writeGathered(): Unit = {
    flushBlock()
    gathered.forEachBlock { (from, until) =>
      lowest = gathered.range.start + from
      highest = gathered.range.start + until - 1
      count = gathered.count(from, until)
      writeRecords(gathered.views, from, until)
    }
    gathered.clear()
  }

  private def writeHeader(): Unit = {
    prelude.writeBytes(Magic)
    prelude.writeInt(Version)
    stream.write(prelude.array, 0, prelude.length)
    written += prelude.length
    prelude.clear()
    prelude.writeByte(Header)
    header.writeTo(prelude)
    writeBlock(prelude, block, 0, 0)
  }

  private def flushBlock(): Unit = if (count > 0) {
    writeRecords(block, 0, 1)
    block(0).clear()
    block(0).shrinkTo(BlockSize * 16)
  }

  private def writeRecords(views: Array[OutputView], from: Int, until: Int): Unit = {
    prelude.clear()
    prelude.writeByte(Records)
    prelude.writeVarInt(state)
    prelude.writeShort(lowest)
    prelude.writeShort(highest)
    prelude.writeVarInt(count)
    writeBlock(prelude, views, from, until)
    blocks += 1
    entries += count
    count = 0
  }

  /** Writes a block of several pieces; views that are null are passed over. */
  private def writeBlock(first: OutputView, more: Array[OutputView], from: Int, until: Int): Unit = {
    var length = first.length
    for (i <- from until until if more(i) != null) length += more(i).length
    frame.clear()
    frame.writeInt(length)
    checksum.reset()
    checksum.update(frame.array, 0, 4)
    checksum.update(first.array, 0, first.length)
    for (i <- from until until if more(i) != null) checksum.update(more(i).array, 0, more(i).length)
    frame.writeInt(checksum.getValue.toInt)
    stream.write(frame.array, 0, frame.length)
    stream.write(first.array, 0, first.length)
    for (i <- from until until if more(i) != null) stream.write(more(i).array, 0, more(i).length)
    written += frame.length + length
  }
}
