package io.pillarbox.metered.limit

import java.util
import java.util.concurrent.TimeUnit

/**
 * The amounts charged of late, which in no stretch of the interval come to more than `most`, if a charge is
 * made only when there is room for it. One thread at a time.
 *
 * Time is cut into slots, each of which has one sum. A slot counts until the interval has passed since its
 * end. Let a charge be made at `t`: whatever was charged after `t - interval` is in slots that have ended
 * later than that, so it is in the sum, which with the charge is at most `most`. Any stretch of the interval
 * ends no more than the interval after each of its charges; so with `t` its last one, all of its charges are
 * in that sum. A charge that is lowered later is lowered where it counts, which takes nothing from any other
 * stretch. What is found to be missing is charged when that is known, and then leaves no room for others.
 *
 * A slot is 1/256 of the interval, so up to 1/257 of `most` stays unused.
 */
private[metered] final class ChargeWindow(val most: Double, intervalNanos: Long) {
  import ChargeWindow._
  require(intervalNanos > 0, s"The interval of the rate limit must be positive, not $intervalNanos ns")

  private val slotNanos = (intervalNanos + Slots - 1) / Slots
  private val slots = new util.TreeMap[java.lang.Long, Slot]
  private var newest: Slot = _
  private var sum = 0.0
  private var isNew = true
  private var origin = 0L

  /** The longest time for which a charge counts. */
  val holdNanos: Long = intervalNanos + slotNanos

  /**
   * The time of amounts given back that a [[Spacing]] keeps: estimates are often some times the use. A minute at
   * most, since what is kept may be used at once.
   */
  def creditNanos: Long = math.min(holdNanos / 4, MostCreditNanos)

  /** What may be charged now; negative if what was missing has been charged. */
  def room(now: Long): Double = {
    expire(now)
    most - sum
  }

  /** The time in ns until there is room for this much, if nothing else is charged; `Never` for too much. */
  def waitNanos(amount: Double, now: Long): Long = {
    var missing = amount - room(now) - most * Rounding
    var wait = 0L
    val oldest = if (missing > 0) slots.values.iterator else util.Collections.emptyIterator[Slot]
    while (missing > 0 && oldest.hasNext) {
      val slot = oldest.next()
      missing -= slot.amount
      wait = endOf(slot) - offset(now)
    }
    if (missing > 0) Limit.Never else wait
  }

  /** Charges an amount at a time, which may be yet to come; returns the slot in which it is. */
  def charge(amount: Double, at: Long): Long = {
    val index = Math.floorDiv(offset(at), slotNanos)
    if ((newest eq null) || newest.index != index)
      newest = slots.computeIfAbsent(index, index => new Slot(index))
    newest.amount += amount
    sum += amount
    index
  }

  /** Lowers what was charged in a slot, unless that counts no more. */
  def giveBack(index: Long, amount: Double): Unit = {
    val slot = slots.get(index)
    if (slot ne null) {
      val lowered = math.min(amount, slot.amount)
      slot.amount -= lowered
      sum -= lowered
    }
  }

  /** True if the charges of a slot count. */
  def has(index: Long): Boolean = slots.containsKey(index)

  /** True if nothing counts any more. */
  def isEmpty(now: Long): Boolean = {
    expire(now)
    slots.isEmpty
  }

  /** By difference from the first time, as the clock may wrap. */
  private def offset(at: Long): Long = {
    if (isNew) {
      origin = at
      isNew = false
    }
    at - origin
  }

  private def endOf(slot: Slot) = (slot.index + 1) * slotNanos + intervalNanos

  private def expire(now: Long): Unit = {
    val nowOffset = offset(now)
    while (!slots.isEmpty && nowOffset >= endOf(slots.firstEntry.getValue)) {
      val slot = slots.pollFirstEntry().getValue
      sum = if (slots.isEmpty) 0.0 else sum - slot.amount
      if (slot eq newest) newest = null
    }
  }
}

private object ChargeWindow {
  private final val Slots = 256L
  private val MostCreditNanos = TimeUnit.MINUTES.toNanos(1)

  /** Sums of fractions are not exact. */
  private final val Rounding = 1e-9

  private final class Slot(val index: Long) {
    var amount = 0.0
  }
}
