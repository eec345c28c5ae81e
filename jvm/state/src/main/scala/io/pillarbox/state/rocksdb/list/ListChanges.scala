package io.pillarbox.state.rocksdb.list

import io.pillarbox.api.OutputView
import io.pillarbox.state.changelog.{KeyParts, StateStreamWriter}
import io.pillarbox.state.rocksdb.cache.ChangeCursor
import io.pillarbox.state.rocksdb.entries.StateColumn

/**
 * Writes single elements to a commit, from changed chunks and the column beside them ([[StateColumn.log]]):
 *
 *   - elements that were added since the last commit are in the changed chunks, with numbers that no commit
 *     has;
 *   - elements that were written again, and access times, are in the log as a commit has them, removed ones
 *     too;
 *   - elements that were removed together are in the log as a chunk of their numbers, see
 *     [[ListChanges.writeRemovedKey]].
 */
private[rocksdb] final class ListChanges(writer: StateStreamWriter) {
  private val parts = new KeyParts
  private val chunk = new ListChunk
  private val key = new OutputView(128)

  /** The last head: its elements come behind those of the list's chunks, whose keys come after its own. */
  private val headKey = new OutputView(128)
  private val head = new OutputView(256)

  /** Writes an entry as it is. */
  def write(change: ChangeCursor): Unit = writer.record(
    change.bytes,
    change.keyOffset,
    change.keyLength,
    if (change.valueLength < 0) null else change.bytes,
    change.valueOffset,
    change.valueLength
  )

  /** Writes a chunk. They come in the order of their keys, and [[endChunks]] behind the last of a column. */
  def writeChunk(column: StateColumn, change: ChangeCursor): Unit = if (change.valueLength >= 0) {
    begin(change)
    if (parts.userKey.remaining > 0) {
      chunk.open(change.bytes, change.valueOffset, change.valueLength)
      writeUncommitted(column)
    } else {
      endChunks(column)
      headKey.writeBytes(change.bytes, change.keyOffset, change.keyLength)
      head.writeBytes(change.bytes, change.valueOffset, change.valueLength)
    }
  }

  def endChunks(column: StateColumn): Unit = if (head.length > 0) {
    parts.open(headKey.array, 0, headKey.length)
    key.clear()
    key.writeBytes(headKey.array, 0, headKey.length)
    chunk.open(head.array, 0, head.length)
    writeUncommitted(column)
    headKey.clear()
    head.clear()
    head.shrinkTo(OutputView.IdleBytes)
  }

  private def writeUncommitted(column: StateColumn): Unit =
    while (chunk.next()) if (chunk.number >= column.committedBelow) {
      setNumber()
      writer.record(key.array, 0, key.length, chunk.array, chunk.valueOffset, chunk.valueLength)
    }

  def writeLogged(change: ChangeCursor): Unit = {
    begin(change)
    if (parts.userKey.remaining != ListChanges.RemovedLength) write(change)
    else {
      chunk.open(change.bytes, change.valueOffset, change.valueLength)
      while (chunk.next()) {
        setNumber()
        writer.record(key.array, 0, key.length, null, 0, 0)
      }
    }
  }

  private def begin(change: ChangeCursor): Unit = {
    parts.open(change.bytes, change.keyOffset, change.keyLength)
    key.clear()
    key.writeBytes(change.bytes, change.keyOffset, parts.prefixLength)
  }

  private def setNumber(): Unit = {
    key.truncate(parts.prefixLength)
    key.writeLong(chunk.number)
  }
}

private[rocksdb] object ListChanges {
  private final val RemovedLength = 2 * java.lang.Long.BYTES

  /**
   * Ends the key of a chunk of removed elements: it sorts behind all elements of the list, so that a commit
   * has it after them.
   */
  def writeRemovedKey(key: OutputView, first: Long): Unit = {
    key.writeLong(-1L)
    key.writeLong(first)
  }
}
