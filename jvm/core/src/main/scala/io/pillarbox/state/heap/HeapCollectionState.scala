package io.pillarbox.state.heap

import io.pillarbox.state._

/** What lists and maps share: a sweep that leaves the collection of the current key alone, whose iterators may be in use. */
private[heap] abstract class HeapCollectionState[K](
    backend: HeapKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    id: Int,
    tableHasTimestamps: Boolean,
    tableTracksChanges: Boolean
) extends HeapState[K](backend, descriptor, id, tableHasTimestamps, tableTracksChanges) {

  /** The position of the collection that the sweep of an access leaves alone. */
  protected final var current: Int = -1
  protected final var sweepNow: Long = 0L

  /** Where the timestamps are. */
  protected def swept: DenseTable

  /** What a sweep does with a position that has something expired. */
  protected def expireAction: PositionAction

  /** Sweeps a little and tells the time; 0 without TTL. */
  protected final def sweptNow(): Long =
    if (policy == null) 0L
    else {
      val now = policy.now
      sweepInTurn(now)
      now
    }

  override protected final def beforeSweep(): Unit = current = entry()

  override protected final def sweep(count: Int, now: Long, limit: Long): Unit = {
    sweepNow = now
    swept.sweep(count, limit, expireAction)
  }
}
