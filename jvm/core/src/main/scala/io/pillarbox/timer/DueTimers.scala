package io.pillarbox.timer

/**
 * Timers that somebody polls, in the order in which they fire. What is polled is no longer registered; its key has to be
 * made the current one. Mailbox thread only.
 */
trait DueTimers[K] extends InternalTimerService[K] {

  /** The next timer of the kind that is due up to `time`; null if there is none. None is due at `Long.MinValue`. */
  def peekDue(kind: TimerKind, time: Long): Timer[K]

  /** Takes [[peekDue]] out, as one that fires. */
  def pollDue(kind: TimerKind, time: Long): Timer[K]

  final def isDue(kind: TimerKind, time: Long): Boolean = peekDue(kind, time) != null
}
