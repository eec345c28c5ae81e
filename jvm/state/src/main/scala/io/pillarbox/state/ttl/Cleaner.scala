package io.pillarbox.state.ttl

import io.pillarbox.state._

/**
 * Clears away expired entries of other keys, a few for each access, so that entries that nobody reads go away
 * at a small, fixed cost. The entries of some accesses are looked at together, at the first of them.
 */
private[pillarbox] final class Cleaner(
    policy: TtlPolicy,
    raw: Stamped,
    backend: KeyedStateBackend[_],
    gone: ExpirySink
) {
  private val entries = if (raw.sweeps) policy.config.cleanup.incrementalEntries else 0
  private val accesses =
    if (entries == 0) 0 else math.max(1, math.min(Cleaner.Accesses, Cleaner.Entries / entries))
  private var accessesToGo = 1

  if (entries > 0 && policy.config.cleanup.incrementalEveryRecord) backend.onEveryRecord(() => sweep(1))

  /** Sweeps if it is the turn of this access, and returns the time. */
  def now(): Long = {
    val now = policy.now
    accessesToGo -= 1
    if (accessesToGo == 0) sweepInTurn()
    now
  }

  /** Sweeps as much as is due for this number of accesses. */
  def sweep(accesses: Int): Unit = if (entries > 0) {
    val now = policy.cleanupTime(policy.now)
    val count = math.min(entries.toLong * accesses, Int.MaxValue).toInt
    raw.sweep(count, policy.limit(now), policy.first(now), gone)
  }

  private def sweepInTurn(): Unit =
    if (accesses == 0) accessesToGo = Int.MaxValue
    else {
      accessesToGo = 1
      backend.checkAccess()
      accessesToGo = accesses
      sweep(accesses)
    }
}

private object Cleaner {

  /** The number of accesses that share a sweep, fewer if it were to look at more than [[Entries]]. */
  private final val Accesses = 8
  private final val Entries = 64
}
