package io.pillarbox.state.ttl

import io.pillarbox.state._

/**
 * Clears away expired entries of other keys, a few for each access, so that entries that nobody reads go away
 * at a small, fixed cost. The entries of some accesses are looked at together, at the first of them.
 */
private[pillarbox] final class Cleaner(
    policy: TtlPolicy,
    raw: Timestamped,
    backend: KeyedStateBackend[_],
    gone: ExpirySink
) {
  private var accessesToGo = 1

  /** Sweeps if it is the turn of this access, and returns the time. */
  def now(): Long = {
    val now = policy.now
    accessesToGo -= 1
    if (accessesToGo == 0) sweepInTurn()
    now
  }

  /** Sweeps as much as is due for this number of accesses. */
  def sweep(accesses: Int): Unit = if (raw.sweeps) {
    val now = policy.cleanupTime(policy.now)
    val count = math.min(Cleaner.Entries.toLong * accesses, Int.MaxValue).toInt
    raw.sweep(count, policy.limit(now), policy.first(now), gone)
  }

  private def sweepInTurn(): Unit =
    if (!raw.sweeps) accessesToGo = Int.MaxValue
    else {
      accessesToGo = 1
      backend.checkAccess()
      accessesToGo = Cleaner.Accesses
      sweep(Cleaner.Accesses)
    }
}

private object Cleaner {

  /** The entries that are looked at for each access. */
  private final val Entries = 5

  /** The accesses that share a sweep. */
  private final val Accesses = 8
}
