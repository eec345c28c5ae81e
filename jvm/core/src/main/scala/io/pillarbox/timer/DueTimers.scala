package io.pillarbox.timer

import io.pillarbox.api.TimeDomain

/**
 * Timers that their owner polls, in the order in which they fire. A polled timer is no longer registered; its
 * key has to be made the current one. Mailbox thread only.
 */
private[pillarbox] trait DueTimers[K] extends InternalTimerService[K] {

  /** The next timer of the kind that is due up to `time`, or null; none is due at `Long.MinValue`. */
  def peekDue(kind: TimeDomain, time: Long): Timer[K]

  /** Removes and returns the timer of [[peekDue]], as one that fires. */
  def pollDue(kind: TimeDomain, time: Long): Timer[K]

  final def isDue(kind: TimeDomain, time: Long): Boolean = peekDue(kind, time) != null
}
