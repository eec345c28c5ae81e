package io.pillarbox.state.rocksdb.list

import io.pillarbox.api.OutputView
import io.pillarbox.state.changelog.{KeyParts, StateStreamWriter}

/**
 * Writes the chunks of a state's lists into a full snapshot: one record an element, and before them that of a
 * list's access time.
 */
private[rocksdb] final class ListSnapshot(writer: StateStreamWriter) {
  private val parts = new KeyParts
  private val chunk = new ListChunk
  private val out = new OutputView(128)

  /** The head comes first, its elements are written last. */
  private var headKey: Array[Byte] = _
  private var head: ListChunk = _

  /** Takes an entry of the database; they come in the order of their keys. */
  def write(key: Array[Byte], value: Array[Byte]): Unit =
    if (parts.open(key, 0, key.length).userKey.remaining == 0) {
      finish()
      headKey = key
      head = new ListChunk().open(value)
      if (head.access ne ListAccess.Never) writeAccess()
    } else if (isBeside(key)) writeElements(chunk.open(value))

  /** True for a chunk beside the head; compaction may have dropped a head before older, expired chunks. */
  private def isBeside(key: Array[Byte]): Boolean = head != null && head.isSplit &&
    headKey.length == parts.prefixLength && key.startsWith(headKey)

  /** Writes the entries that wait for the end. */
  def finish(): Unit = if (head != null) {
    writeElements(head)
    head = null
  }

  private def writeAccess(): Unit = {
    out.clear()
    out.writeLong(head.access.time)
    out.writeLong(head.access.below)
    writer.record(headKey, 0, headKey.length, out.array, 0, out.length)
  }

  private def writeElements(from: ListChunk): Unit = while (from.next()) {
    out.clear()
    out.writeBytes(headKey)
    out.writeLong(from.number)
    writer.record(out.array, 0, out.length, from.array, from.valueOffset, from.valueLength)
  }
}
