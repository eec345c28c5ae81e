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
