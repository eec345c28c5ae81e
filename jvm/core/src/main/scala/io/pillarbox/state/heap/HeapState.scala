package io.pillarbox.state.heap

import io.pillarbox.state._
import io.pillarbox.state.changelog._
import io.pillarbox.state.serialization.InputView
import io.pillarbox.state.ttl.TtlPolicy

/**
 * What the heap's handles share: the key table, the position of the current key, TTL, and writing to streams.
 *
 * Handles of TTL state look at the next few entries of the table for each access ([[sweep]]), so what nobody reads any more
 * goes away at a small, fixed cost an access. The entries of some accesses are looked at together, at the first of them.
 *
 * @param id of the state in streams
 */
private[heap] abstract class HeapState[K](
    protected val backend: HeapKeyedStateBackend[K],
    val descriptor: StateDescriptor[_],
    val id: Int,
    tableHasTimestamps: Boolean,
    tableTracksChanges: Boolean
) extends State {
  protected final val policy: TtlPolicy = TtlPolicy.of(descriptor.ttl, backend)
  protected final val table: KeyTable[K] =
    new KeyTable[K](backend.keySerializer, tableHasTimestamps && policy != null, tableTracksChanges)
  private[this] val sweepCount =
    if (policy == null || !backend.sweeps) 0 else policy.config.cleanup.incrementalEntries
  private[this] val sweepAccesses =
    if (sweepCount == 0) 0
    else math.max(1, math.min(HeapState.SweepAccesses, HeapState.SweepEntries / sweepCount))
  private[this] var accessesToSweep = 1
  private[this] val listener = descriptor.onExpire.orNull

  private[this] var knownContext = -1L
  private[this] var knownRemovals = 0
  private[this] var known = -1

  if (sweepCount > 0 && policy.config.cleanup.incrementalEveryRecord)
    backend.onEveryRecord { () =>
      val now = policy.cleanupTime(policy.now)
      sweep(sweepCount, now, policy.limit(now))
    }

  /** Sweeps if it is the turn of this access. */
  protected final def sweepInTurn(now: Long): Unit = {
    accessesToSweep -= 1
    if (accessesToSweep == 0) sweepForAccesses(now)
  }

  private[this] def sweepForAccesses(now: Long): Unit =
    if (sweepAccesses == 0) accessesToSweep = Int.MaxValue
    else {
      accessesToSweep = 1
      backend.checkAccess()
      accessesToSweep = sweepAccesses
      beforeSweep()
      val cleanup = policy.cleanupTime(now)
      sweep(sweepCount * sweepAccesses, cleanup, policy.limit(cleanup))
    }

  protected def beforeSweep(): Unit = ()

  /** The position of the current key, perhaps of a tombstone, or -1. */
  protected final def entry(): Int = {
    backend.checkAccess()
    if (knownContext == backend.contextVersion && knownRemovals == table.removals) known else locate()
  }

  /** The position of the current key, made if there was none. */
  protected final def entryForWrite(): Int = {
    val found = entry()
    if (found >= 0) found
    else {
      known = table.insert(backend.currentKey, backend.keyHash, backend.namespace)
      known
    }
  }

  private[this] def locate(): Int = {
    known = table.find(backend.currentKey, backend.keyHash, backend.namespace)
    knownContext = backend.contextVersion
    knownRemovals = table.removals
    known
  }

  /** Looks at the next `count` entries and removes those that are expired. */
  protected def sweep(count: Int, now: Long, limit: Long): Unit

  /** Hands an expired value, already removed, to the listener. */
  protected final def tellExpired(key: K, namespace: Namespace, userKey: Any, value: Any): Unit =
    if (listener != null) backend.withoutKey(listener.onExpire(key, namespace, userKey, value))

  def nextSequence: Long = 0L

  def numEntries: Long

  /** Entries in tables, cheap to ask for from any thread. */
  def used: Long = table.used.toLong

  /** Positions that hold something. */
  protected def isAlive(entry: Int): Boolean = table.isUsed(entry) && table.value(entry) != null

  def writeChanges(writer: StateStreamWriter): Unit

  /** What [[writeChanges]] wrote is durable. */
  def commitChanges(): Unit

  /** Writes the entry of one position in full. */
  protected def writeEntry(entry: Int, keyGroup: Int, limit: Long, writer: StateStreamWriter): Unit

  final def writeAll(writer: StateStreamWriter): Unit = {
    val limit =
      if (policy != null && policy.config.cleanup.inFullSnapshot) policy.limit(policy.now)
      else StateClock.Unknown
    writer.beginGathering(backend.keyGroupRange, table.used)
    var entry = 0
    while (entry < table.highWater) {
      if (isAlive(entry)) writeEntry(entry, keyGroupOf(entry), limit, writer)
      entry += 1
    }
    writer.endGathering()
  }

  protected final def keyGroupOf(entry: Int): Int =
    KeyGroups.keyGroupOf(table.keyHash(entry), backend.maxKeyGroups)

  protected final def writePrefix(entry: Int, keyGroup: Int, writer: StateStreamWriter): Unit =
    CompositeKey.writePrefix(
      writer.out,
      keyGroup,
      table.key(entry),
      backend.keySerializer,
      table.namespace(entry).bytes
    )

  /** Takes over one restored record; `userKey` is what follows the key and namespace. */
  protected def load(
      entry: Int,
      isPut: Boolean,
      userKey: InputView,
      value: InputView,
      plan: RestorePlan[AnyRef, AnyRef]
  ): Unit

  /** Takes over what was restored under this state's name before it was registered. */
  def restore(raw: RawState): Unit = {
    val now = if (policy == null) StateClock.Unknown else policy.now
    val reader = new RecordReader(backend)
    raw.replay(backend.keyGroupRange, RestorePlan.of[AnyRef, AnyRef](_, descriptor, now)) { (cursor, plan) =>
      val key = reader.open(cursor)
      val found = table.find(key, backend.keySerializer.hash(key), reader.namespace)
      val entry =
        if (found >= 0 || !cursor.isPut) found
        else table.insert(key, backend.keySerializer.hash(key), reader.namespace)
      if (entry >= 0) load(entry, cursor.isPut, reader.userKey, reader.value, plan)
    }
  }
}

private[heap] object HeapState {

  /** So many accesses share a sweep, fewer if it were to look at more than [[SweepEntries]]. */
  final val SweepAccesses = 8
  final val SweepEntries = 64
}
