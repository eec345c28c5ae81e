package io.pillarbox.state.heap

import io.pillarbox.api.{State, StateDescriptor}
import io.pillarbox.state._
import io.pillarbox.state.changelog._
import io.pillarbox.state.ttl.TtlPolicy

/**
 * The common part of the heap's handles: the key table, the position of the current key, the sweep, and
 * writing to streams.
 *
 * @param id the number of the state in streams
 */
private[heap] abstract class HeapState[K](
    protected val backend: HeapKeyedStateBackend[K],
    val descriptor: StateDescriptor[_],
    val id: Int,
    tableHasTimestamps: Boolean,
    tableTracksChanges: Boolean
) extends State {
  protected final val hasTimestamps: Boolean = descriptor.ttl.isPresent
  protected final val table: KeyTable[K] =
    new KeyTable[K](backend.keySerializer, tableHasTimestamps && hasTimestamps, tableTracksChanges)

  private var knownContext = -1L
  private var knownRemovals = 0
  private var known = -1

  /** The position of the list or map that a sweep leaves alone, whose iterators may be in use. */
  protected final var current: Int = -1

  final def sweeps: Boolean = hasTimestamps && backend.sweeps

  final def sweep(count: Int, upTo: Long, first: Long, gone: ExpirySink): Unit = if (sweeps) {
    current = if (backend.hasCurrentKey) entry() else -1
    swept.sweep(count, upTo, sweepOne(_, upTo, first, gone))
  }

  /** The table with the timestamps. */
  protected def swept: DenseTable = table

  /** Handles a position that a sweep has met with a timestamp up to `upTo`. */
  protected def sweepOne(at: Int, upTo: Long, first: Long, gone: ExpirySink): Unit

  /** The position of the current key, perhaps of a tombstone, or -1. */
  protected final def entry(): Int = {
    backend.checkAccess()
    if (knownContext == backend.contextVersion && knownRemovals == table.removals) known else locate()
  }

  /** The result of the last [[entry]]. */
  protected final def lastEntry: Int = known

  /** The position of the current key, made if there was none. */
  protected final def entryForWrite(): Int = {
    val found = entry()
    if (found >= 0) found
    else {
      known = table.insert(backend.currentKey, backend.keyHash, backend.namespace)
      known
    }
  }

  private def locate(): Int = {
    known = table.find(backend.currentKey, backend.keyHash, backend.namespace)
    knownContext = backend.contextVersion
    knownRemovals = table.removals
    known
  }

  def nextSequence: Long = 0L

  /** The entries in tables, cheap to ask for from any thread. */
  def used: Long = table.used.toLong

  /** True if the position holds something. */
  protected def isAlive(entry: Int): Boolean = table.isUsed(entry) && table.value(entry) != null

  def writeChanges(writer: StateStreamWriter): Unit

  /** Tells that the result of [[writeChanges]] is durable. */
  def commitChanges(): Unit

  /** Writes the entry of one position in full. */
  protected def writeEntry(entry: Int, writer: StateStreamWriter): Unit

  final def writeAll(writer: StateStreamWriter): Unit = {
    var entry = 0
    while (entry < table.highWater) {
      if (isAlive(entry)) writeEntry(entry, writer)
      entry += 1
    }
  }

  protected final def writePrefix(entry: Int, writer: StateStreamWriter): Unit = CompositeKey.writePrefix(
    writer.out,
    table.key(entry),
    backend.keySerializer,
    table.namespace(entry).bytes
  )

  /** Takes over one restored record. */
  protected def load(entry: Int, record: RecordReader[K], plan: RestorePlan[AnyRef, AnyRef]): Unit

  /** Takes over the records restored under this state's name before it was registered. */
  def restore(raw: RawState[K]): Unit = {
    val now = TtlPolicy.now(descriptor, backend)
    val reader = new RecordReader(backend)
    raw.replay(RestorePlan.of[AnyRef, AnyRef](_, descriptor, now)) { (cursor, plan) =>
      val key = reader.open(cursor)
      val hash = backend.keySerializer.hash(key)
      val found = table.find(key, hash, reader.namespace)
      val entry = if (found >= 0 || !cursor.isPut) found else table.insert(key, hash, reader.namespace)
      if (entry >= 0) load(entry, reader, plan)
    }
  }
}
