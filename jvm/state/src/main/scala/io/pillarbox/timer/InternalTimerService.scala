package io.pillarbox.timer

import io.pillarbox.api.TimeDomain
import io.pillarbox.state.Namespace

/**
 * Timers of the current key. Mailbox thread only; all times in milliseconds since 1970.
 *
 * A timer is registered once however often it is asked for. Timers fire in the order of their times, those of
 * one time in a fixed order (see [[TimerOrder]]). A timer whose time has passed fires the next time that
 * timers fire, which is in the same round if a timer registered it. State may be used in a namespace other
 * than the void one.
 */
private[pillarbox] trait InternalTimerService[K] {

  def register(kind: TimeDomain, namespace: Namespace, time: Long): Unit

  /** Deletes a timer. No-op if there is no such timer. */
  def delete(kind: TimeDomain, namespace: Namespace, time: Long): Unit

  /** The timers of the current key, in time order. */
  def timersOfCurrentKey(kind: TimeDomain): Seq[Timer[K]]
}

/**
 * Timers that their owner polls, in the order in which they fire. A polled timer is no longer registered; its
 * key has to be made the current one. Mailbox thread only.
 */
private[pillarbox] trait PolledTimerService[K] extends InternalTimerService[K] {

  /** The first timer of the kind, or null. */
  protected def peek(kind: TimeDomain): Timer[K]

  /** Removes and returns the first timer of the kind, which is not null, as one that fires. */
  protected def poll(kind: TimeDomain): Timer[K]

  /** The next timer of the kind that is due up to `time`, or null; none is due at `Long.MinValue`. */
  final def peekDue(kind: TimeDomain, time: Long): Timer[K] = {
    val head = peek(kind)
    if (head != null && time != Long.MinValue && head.timestamp <= time) head else null
  }

  /** Removes and returns the timer of [[peekDue]], as one that fires. */
  final def pollDue(kind: TimeDomain, time: Long): Timer[K] =
    if (peekDue(kind, time) != null) poll(kind) else null

  final def isDue(kind: TimeDomain, time: Long): Boolean = peekDue(kind, time) != null
}
