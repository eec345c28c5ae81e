package io.pillarbox.metered.lease

import scala.collection.mutable

import io.pillarbox.metered.limit.{Claim, ReportedMean, Told, ToldBounds}

/**
 * What a process has of a rate that is lent, and its account of it. Amounts that it does not use are returned
 * by the slot that they count into. Under the lock of the gate.
 */
private[lease] final class AmountPool(terms: LeaseTerms) {
  import AmountPool._

  private var left = 0.0
  private var end = 0L
  private var slot = 0L
  private val returned = mutable.LinkedHashMap.empty[Long, Returned]
  private var missing = 0.0
  private val own = new ReportedMean(terms.most)
  private var mean = Double.NaN

  /** What the service has said here; the lender is told the strictest until it has answered. */
  private val bounds = new ToldBounds(terms.intervalNanos)
  private var told: Option[Told] = None
  private var toldNanos = 0L
  private var toldIn = 0L

  def expire(now: Long): Unit = if (left > 0 && now - end >= 0) drop()

  /** Returns all that is left. */
  def drop(): Unit = {
    if (left > 0) giveBack(slot, left)
    left = 0.0
  }

  def take(waiter: Runnable, now: Long): Boolean = {
    val amount = needOf(waiter)
    val granted = amount <= left + terms.most * Rounding && bounds.hasRoom(amount, now)
    if (granted) {
      left = math.max(0.0, left - amount)
      bounds.charge(amount, bounds.heard)
      Claim.note(waiter, amount, slot, bounds.heard)
    }
    granted
  }

  private def needOf(waiter: Runnable): Double = waiter match {
    case claim: Claim if claim.asked.isNaN && !mean.isNaN => math.min(terms.most, mean)
    case claim: Claim => own.toCharge(claim.asked)
    case _ => 1.0
  }

  /** Takes a claim back whose call did not begin. */
  def unused(claim: Claim, now: Long): Unit = {
    bounds.charge(-claim.charged, claim.heard)
    if (claim.slot == slot && now - end < 0) left += claim.charged else giveBack(claim.slot, claim.charged)
  }

  def settle(claim: Claim, used: Double): Unit = {
    val more = own.settled(claim, used) - claim.charged
    bounds.charge(more, claim.heard)
    if (more > 0) missing += more else if (more < 0) giveBack(claim.slot, -more)
  }

  private def giveBack(slot: Long, amount: Double): Unit =
    returned.getOrElseUpdate(slot, new Returned).add(amount)

  /** Takes note of what the service said; what is here goes back if that is less. */
  def hear(said: Told, now: Long): Unit = {
    bounds.hear(said, now)
    if (!toldNow(now).exists(_.remaining < said.remaining)) {
      told = Some(said)
      toldNanos = now
      toldIn = 0L
    }
    if (said.remaining < left) drop()
  }

  /** What the lender has to hear, as it is to be said now. */
  private def toldNow(now: Long): Option[Told] =
    told.filter(_.resetNanos == Told.NoReset).orElse {
      told.map(said => said.copy(resetNanos = said.resetNanos - (now - toldNanos))).filter(_.resetNanos > 0)
    }

  /** False if the service has said that nothing is left. */
  def mayBegin(now: Long): Boolean = !bounds.isClosed(now)

  /**
   * @param number that of the report
   * @param acked the last report that was answered
   * @param head the first that waits, or null
   */
  def report(number: Long, acked: Long, head: Runnable, now: Long): AmountUse = {
    if (toldIn > 0 && acked >= toldIn) told = None
    if (toldIn == 0) toldIn = number
    // What is too little for the first is of use to nobody here.
    if ((head ne null) && needOf(head) > left) drop()
    returned.valuesIterator.foreach(_.reportedIn(number))
    returned.filterInPlace((slot, _) => math.abs(slot - this.slot) < KeptSlots): Unit
    AmountUse(
      head match {
        case claim: Claim if claim.asked.isNaN => if (own.isKnown) needOf(claim) else Double.NaN
        case waiter => needOf(waiter)
      },
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

private object AmountPool {
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
