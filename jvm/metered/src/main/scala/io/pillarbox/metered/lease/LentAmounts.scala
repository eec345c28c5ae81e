package io.pillarbox.metered.lease

import scala.collection.mutable

import io.pillarbox.metered.limit._

/**
 * What a process has of a rate that is lent, and its account of it. Amounts that it does not use are returned
 * by the slot that they count into. Under the lock of limits.
 */
private[lease] final class LentAmounts(terms: LimitTerms) extends Amounts {
  import LentAmounts._

  private var left = 0.0
  private var end = 0L
  private var slot = 0L
  private val returned = mutable.LinkedHashMap.empty[Long, Returned]
  private var missing = 0.0
  private val own = new ReportedMean(terms.most)
  private var mean = Double.NaN

  /** What the service has said here; the lender is told the strictest until it has answered. */
  private val bounds = new FeedbackBounds(terms.intervalNanos)
  private var told: Option[Feedback] = None
  private var toldNanos = 0L
  private var toldIn = 0L

  def expire(now: Long): Unit = if (left > 0 && now - end >= 0) drop()

  /** Returns all that is left. */
  def drop(): Unit = {
    if (left > 0) giveBack(slot, left)
    left = 0.0
  }

  override def waitNanos(charge: Charge, now: Long): Long = {
    expire(now)
    val isThere = needOf(charge) <= left + terms.most * Rounding
    if (isThere) bounds.waitNanos(needOf(charge), now) else Limit.Never
  }

  override def take(charge: Charge, now: Long): Unit = {
    charge.amount = needOf(charge)
    charge.slot = slot
    left = math.max(0.0, left - charge.amount)
    bounds.charge(charge)
  }

  private def needOf(charge: Charge): Double =
    if (charge.asked.isNaN && !mean.isNaN) math.min(terms.most, mean) else own.toCharge(charge.asked)

  override def giveBack(charge: Charge, now: Long): Unit = {
    bounds.charge(-charge.amount, charge.feedback)
    if (charge.slot == slot && now - end < 0) left += charge.amount else giveBack(charge.slot, charge.amount)
  }

  override def settle(charge: Charge, used: Double, now: Long): Unit = {
    val more = own.settled(charge, used) - charge.amount
    bounds.charge(more, charge.feedback)
    if (more > 0) missing += more else if (more < 0) giveBack(charge.slot, -more)
  }

  private def giveBack(slot: Long, amount: Double): Unit =
    returned.getOrElseUpdate(slot, new Returned).add(amount)

  /** Takes note of what the service said; what is here goes back if that is less. */
  override def receive(said: Feedback, now: Long): Unit = {
    bounds.receive(said, now)
    if (!toldNow(now).exists(_.remaining < said.remaining)) {
      told = Some(said)
      toldNanos = now
      toldIn = 0L
    }
    if (said.remaining < left) drop()
  }

  /** What the lender has to hear, as it is to be said now. */
  private def toldNow(now: Long): Option[Feedback] =
    told.filter(_.resetNanos == Feedback.NoReset).orElse {
      told.map(said => said.copy(resetNanos = said.resetNanos - (now - toldNanos))).filter(_.resetNanos > 0)
    }

  override def isClosed(now: Long): Boolean = bounds.isClosed(now)

  override def isBound(now: Long): Boolean = !bounds.isEmpty(now)

  /**
   * @param number that of the report
   * @param acked the last report that was answered
   * @param head the first that waits, or null
   */
  def report(number: Long, acked: Long, head: Charge, now: Long): AmountUse = {
    if (toldIn > 0 && acked >= toldIn) told = None
    if (toldIn == 0) toldIn = number
    // What is too little for the first is of use to nobody here.
    if ((head ne null) && needOf(head) > left) drop()
    returned.valuesIterator.foreach(_.reportedIn(number))
    returned.filterInPlace((slot, _) => math.abs(slot - this.slot) < KeptSlots): Unit
    AmountUse(
      if (head eq null) 1.0 else if (head.asked.isNaN && !own.isKnown) Double.NaN else needOf(head),
      returned.iterator.filter(_._2.lastIn > acked).map { case (slot, back) => slot -> back.sum }.toSeq,
      missing,
      own.sum,
      own.count,
      toldNow(now)
    )
  }

  /** Returns an amount whose answer came after a later one. */
  def overtaken(grant: AmountGrant): Unit = if (grant.amount > 0) giveBack(grant.slot, grant.amount)

  def apply(grant: AmountGrant, sentNanos: Long): Unit = {
    mean = grant.mean
    if (grant.amount > 0) {
      drop()
      left = grant.amount
      slot = grant.slot
      end = sentNanos + grant.lifeNanos
    }
  }
}

private object LentAmounts {
  private final val Rounding = 1e-9

  /** More than a slot counts. */
  private final val KeptSlots = 2048L

  /** What of one slot was not used. */
  private final class Returned {
    var sum = 0.0
    private var isNews = false

    /** The last report that had to tell of it. */
    var lastIn = 0L

    def add(amount: Double): Unit = {
      sum += amount
      isNews = true
    }

    def reportedIn(number: Long): Unit = if (isNews) {
      isNews = false
      lastIn = number
    }
  }
}
