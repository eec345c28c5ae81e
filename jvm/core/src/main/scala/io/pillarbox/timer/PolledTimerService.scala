package io.pillarbox.timer

import io.pillarbox.api.TimeDomain

/**
 * Timers that somebody polls, in the order in which they fire. What is polled is no longer registered; its
 * key has to be made the current one. Mailbox thread only.
 */
private[pillarbox] trait PolledTimerService[K] extends InternalTimerService[K] {

  /**
   * The next timer of the kind that is due up to `time`; null if there is none. None is due at
   * `Long.MinValue`.
   */
  def peekDue(kind: TimeDomain, time: Long): Timer[K]

  /** Takes [[peekDue]] out, as one that fires. */
  def pollDue(kind: TimeDomain, time: Long): Timer[K]

  final def isDue(kind: TimeDomain, time: Long): Boolean = peekDue(kind, time) != null
}
