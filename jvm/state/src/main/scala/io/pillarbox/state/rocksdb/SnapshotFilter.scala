package io.pillarbox.state.rocksdb

import io.pillarbox.api.{Bytes, OutputView, StateDescriptor}
import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.state.changelog.{KeyParts, StateStreamWriter}
import io.pillarbox.state.rocksdb.list.{ListAccess, ListChunk}
import io.pillarbox.state.ttl.SnapshotCut

/**
 * Writes the entries of one state into a full snapshot, without the expired ones if its TTL asks for that. It
 * is given entries in the order of their keys.
 *
 * @param descriptor the descriptor of the state, if it is registered
 */
private[rocksdb] abstract class SnapshotFilter(
    descriptor: Option[StateDescriptor[_]],
    backend: KeyedStateBackend[_]
) {
  private val cut = descriptor.fold(SnapshotCut.Nothing)(SnapshotCut.of(_, backend))

  def write(key: Array[Byte], value: Array[Byte]): Unit

  /** Writes the entries that wait for the end. */
  def finish(): Unit = ()

  /** True if an entry with this timestamp is in the snapshot. */
  protected final def keeps(value: Array[Byte], offset: Int, access: ListAccess, number: Long): Boolean =
    (cut eq SnapshotCut.Nothing) || !cut.leavesOut(access.timestamp(number, Bytes.getLong(value, offset)))
}

/** Writes one record an entry. */
private[rocksdb] final class EntrySnapshot(
    writer: StateStreamWriter,
    descriptor: Option[StateDescriptor[_]],
    backend: KeyedStateBackend[_]
) extends SnapshotFilter(descriptor, backend) {

  override def write(key: Array[Byte], value: Array[Byte]): Unit =
    if (keeps(value, 0, ListAccess.Never, 0L))
      writer.record(key, 0, key.length, value, 0, value.length)
}

/** Writes one record an element, and before them that of a list's access time. */
private[rocksdb] final class ListSnapshot(
    writer: StateStreamWriter,
    descriptor: Option[StateDescriptor[_]],
    backend: KeyedStateBackend[_]
) extends SnapshotFilter(descriptor, backend) {
  private val parts = new KeyParts
  private val chunk = new ListChunk
  private val out = new OutputView(128)

  /** The head comes first, its elements are written last. */
  private var headKey: Array[Byte] = _
  private var head: ListChunk = _

  override def write(key: Array[Byte], value: Array[Byte]): Unit =
    if (parts.open(key, 0, key.length).userKey.remaining == 0) {
      finish()
      headKey = key
      head = new ListChunk().open(value)
      if (head.access ne ListAccess.Never) writeAccess()
    } else if (isBeside(key)) writeElements(chunk.open(value))

  /** True for a chunk beside the head; compaction may have dropped a head before older, expired chunks. */
  private def isBeside(key: Array[Byte]): Boolean = head != null && head.isSplit &&
    headKey.length == parts.prefixLength && key.startsWith(headKey)

  override def finish(): Unit = if (head != null) {
    writeElements(head)
    head = null
  }

  private def writeAccess(): Unit = {
    out.clear()
    out.writeLong(head.access.time)
    out.writeLong(head.access.below)
    writer.record(headKey, 0, headKey.length, out.array, 0, out.length)
  }

  private def writeElements(from: ListChunk): Unit = while (from.next())
    if (keeps(from.array, from.valueOffset, head.access, from.number)) {
      out.clear()
      out.writeBytes(headKey)
      out.writeLong(from.number)
      writer.record(out.array, 0, out.length, from.array, from.valueOffset, from.valueLength)
    }
}
