package io.pillarbox.state.changelog

import java.io.OutputStream
import java.util.zip.CRC32C

import io.pillarbox.api.OutputView
import io.pillarbox.state.CommitSummary
import io.pillarbox.state.changelog.StateStreamFormat._

/**
 * Writes a snapshot or log, a block at a time. Keys and values are serialised straight into the block.
 *
 * A record is [[beginPut]] or [[beginRemove]], the composite key into [[out]], after a put [[endKey]] and the
 * value into `out`, and [[end]]. [[finish]] at the end; without it the stream is unreadable, as it
 * must be after a crash.
 */
private[pillarbox] final class StateStreamWriter(stream: OutputStream, header: StreamHeader) {
  private val prelude = new OutputView(256)
  private val frame = new OutputView(16)
  private val checksum = new CRC32C
  private var state = -1
  private var count = 0
  private var region = 0
  private var entries = 0L
  private var removals = 0L
  private var blocks = 0
  private var written = 0L

  /** Takes the key and the value of the current record. */
  val out = new OutputView(BlockSize + (BlockSize >> 2))

  writeHeader()

  def beginState(id: Int): Unit = {
    flushBlock()
    state = id
  }

  def beginPut(): Unit = begin(1)

  def beginRemove(): Unit = {
    removals += 1
    begin(0)
  }

  /** Ends the key of a put. */
  def endKey(): Unit = {
    out.endSized(region)
    region = out.beginSized()
  }

  /** Ends the value of a put, or the key of a removal. */
  def end(): Unit = {
    out.endSized(region)
    count += 1
    if (out.length >= BlockSize) flushBlock()
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
    if (value == null) beginRemove() else beginPut()
    out.writeBytes(key, keyOffset, keyLength)
    if (value != null) {
      endKey()
      out.writeBytes(value, valueOffset, valueLength)
    }
    end()
  }

  /** Writes what is left and the end mark, and flushes the stream. */
  def finish(): CommitSummary = {
    flushBlock()
    prelude.clear()
    prelude.writeByte(End)
    prelude.writeLong(entries)
    prelude.writeInt(blocks)
    writeBlock(StateStreamWriter.Nothing)
    stream.flush()
    CommitSummary(header.version, entries, written, removals)
  }

  private def begin(put: Int): Unit = {
    out.writeByte(put)
    region = out.beginSized()
  }

  private def writeHeader(): Unit = {
    prelude.writeBytes(Magic)
    prelude.writeInt(Version)
    write(prelude)
    prelude.clear()
    prelude.writeByte(Header)
    header.writeTo(prelude)
    writeBlock(StateStreamWriter.Nothing)
  }

  private def flushBlock(): Unit = if (count > 0) {
    prelude.clear()
    prelude.writeByte(Records)
    prelude.writeVarInt(state)
    prelude.writeVarInt(count)
    writeBlock(out)
    blocks += 1
    entries += count
    count = 0
    out.clear()
    out.shrinkTo(BlockSize * 16)
  }

  /** Writes a block of the prelude and what is behind it. */
  private def writeBlock(rest: OutputView): Unit = {
    frame.clear()
    frame.writeInt(prelude.length + rest.length)
    checksum.reset()
    Seq(frame, prelude, rest).foreach(part => checksum.update(part.array, 0, part.length))
    frame.writeInt(checksum.getValue.toInt)
    Seq(frame, prelude, rest).foreach(write)
  }

  private def write(part: OutputView): Unit = {
    stream.write(part.array, 0, part.length)
    written += part.length
  }
}

private object StateStreamWriter {
  private val Nothing = new OutputView(0)
}
