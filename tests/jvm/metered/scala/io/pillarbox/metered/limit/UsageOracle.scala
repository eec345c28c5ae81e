package io.pillarbox.metered.limit

import scala.collection.mutable

import org.scalatest.Assertions

/** What calls use, counted by nobody who limits it: at their start, and beyond their charge when they end. */
private[pillarbox] final class UsageOracle(clock: LimitClock) extends Assertions {
  private val origin = clock.nanoTime
  private val used = mutable.ArrayBuffer.empty[(Long, Double)]
  private val missing = mutable.ArrayBuffer.empty[(Long, Double)]

  def add(startNanos: Long, charged: Double, amount: Double, endNanos: Long): Unit = {
    used += ((startNanos - origin, math.min(charged, amount)))
    if (amount > charged) missing += ((endNanos - origin, amount - charged))
  }

  def total: Double = (used ++ missing).map(_._2).sum

  /** In no stretch of the interval is it more than `most`, but for what was missing and could not be known. */
  def check(most: Double, intervalNanos: Long): Unit = {
    val all = (used.map { case (at, n) => (at, n, true) } ++ missing.map { case (at, n) => (at, n, false) })
      .sortBy(_._1)
    var (first, sum) = (0, 0.0)
    all.foreach { case (at, amount, isCharge) =>
      while (at - all(first)._1 >= intervalNanos) {
        sum -= all(first)._2
        first += 1
      }
      // What was missing is over the limit or not; nothing may begin where it is.
      if (isCharge) assert(sum + amount <= most * (1 + 1e-6), s"at $at")
      sum += amount
    }
  }
}
