package io.pillarbox.metered.limit

import java.util

/**
 * What the service has said is left: until its time no more is charged from when that was received. All
 * that was said holds together. One thread at a time.
 *
 * @param intervalNanos the time after which all is there again where the service does not say when
 */
private[metered] final class FeedbackBounds(intervalNanos: Long) {
  import FeedbackBounds._

  /** By their ends. */
  private val bounds = new util.ArrayList[Bound]

  /** The number of the last feedback. What is charged counts against that, and all that came before. */
  var last: Long = 0L

  def receive(said: Feedback, now: Long): Unit = {
    expire(now)
    last += 1
    val wait =
      if (said.resetNanos == Feedback.NoReset) intervalNanos
      else math.min(said.resetNanos, Overload.LongestPauseNanos)
    val made = new Bound(last, now + wait, said.remaining, isNone = said.remaining <= 0)
    // It stays stricter than these, whatever is given back: of what was charged since, less counts against it.
    bounds.removeIf(old =>
      old.end - made.end <= 0 && old.left >= made.left && (made.isNone || !old.isNone)
    ): Unit
    var at = 0
    while (at < bounds.size && bounds.get(at).end - made.end < 0) at += 1
    bounds.add(at, made)
    if (bounds.size > Most) joinNearest()
  }

  /** Makes one of the two that end soonest after each other, which is as strict as either. */
  private def joinNearest(): Unit = {
    var nearest = 0
    def gap(at: Int) = bounds.get(at + 1).end - bounds.get(at).end
    (1 until bounds.size - 1).foreach(at => if (gap(at) < gap(nearest)) nearest = at)
    val (one, later) = (bounds.remove(nearest), bounds.get(nearest))
    val number = math.max(one.number, later.number)
    val both = new Bound(number, later.end, math.min(one.left, later.left), one.isNone || later.isNone)
    bounds.set(nearest, both): Unit
  }

  /** The amount that may be charged now; infinite if nothing was said. */
  def room(now: Long): Double = {
    expire(now)
    var least = Double.PositiveInfinity
    bounds.forEach(bound => least = math.min(least, bound.left))
    least
  }

  /** The time in ns until there is room for this much, if nothing is given back. */
  def waitNanos(amount: Double, now: Long): Long = {
    var wait = 0L
    if (!isEmpty(now))
      bounds.forEach(bound =>
        if (amount > bound.left + amount * Rounding) wait = math.max(wait, bound.end - now)
      )
    wait
  }

  /** Charges a call. */
  def charge(call: Charge): Unit = {
    call.feedback = last
    charge(call.amount, last)
  }

  /**
   * Charges an amount, or gives a negative one back.
   *
   * @param since the last feedback when its call was charged: that counts against no later bound
   */
  def charge(amount: Double, since: Long): Unit =
    if (!bounds.isEmpty) bounds.forEach(bound => if (bound.number <= since) bound.left -= amount)

  /** True if the service has said that nothing is left, also for what was charged before. */
  def isClosed(now: Long): Boolean = {
    expire(now)
    bounds.stream.anyMatch(_.isNone)
  }

  /** True if nothing that was said holds any more. */
  def isEmpty(now: Long): Boolean = {
    expire(now)
    bounds.isEmpty
  }

  private def expire(now: Long): Unit =
    while (!bounds.isEmpty && now - bounds.get(0).end >= 0) bounds.remove(0)
}

private object FeedbackBounds {
  private final val Most = 16
  private final val Rounding = 1e-9

  private final class Bound(val number: Long, val end: Long, var left: Double, val isNone: Boolean)
}

/**
 * What the service has said of a limit.
 *
 * @param remaining the amount that is left
 * @param resetNanos the time from now until all of it is there again; [[Feedback.NoReset]] if that was not said
 */
private[pillarbox] final case class Feedback(remaining: Double, resetNanos: Long)

private[pillarbox] object Feedback {

  /** In the place of a time that the service has not told. */
  final val NoReset = Long.MaxValue
}
