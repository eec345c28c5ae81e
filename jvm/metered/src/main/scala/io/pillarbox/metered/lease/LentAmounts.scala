package io.pillarbox.metered.lease

import scala.collection.mutable

import io.pillarbox.metered.limit._

/**
 * What a process has of a rate that is lent, and its account of it. Amounts that it does not use are returned
 * by the grant that they came with. Under the lock of limits.
 */
private[lease] final class LentAmounts(terms: LimitTerms) extends Amounts {
  import LentAmounts._

  private val granted = mutable.LinkedHashMap.empty[Long, Granted]
  private var current = 0L
  private var left = 0.0
  private var end = 0L
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
    if (left > 0) giveBack(current, left)
    left = 0.0
  }

  override def waitNanos(charge: Charge, now: Long): Long = {
    expire(now)
    val isThere = needOf(charge) <= left + terms.most * Rounding
    if (isThere) bounds.waitNanos(needOf(charge), now) else Limit.Never
  }

  override def take(charge: Charge, now: Long): Unit = {
    charge.amount = needOf(charge)
    charge.slot = current
    granted.get(current).foreach(_.calls += 1)
    left = math.max(0.0, left - charge.amount)
    bounds.charge(charge)
  }

  private def needOf(charge: Charge): Double =
    if (charge.asked.isNaN && !mean.isNaN) math.min(terms.most, mean) else own.toCharge(charge.asked)

  override def giveBack(charge: Charge, now: Long): Unit = {
    granted.get(charge.slot).foreach(_.calls -= 1)
    bounds.charge(-charge.amount, charge.feedback)
    if (charge.slot == current && now - end < 0) left += charge.amount
    else giveBack(charge.slot, charge.amount)
  }

  override def settle(charge: Charge, used: Double): Unit = {
    granted.get(charge.slot).foreach(_.calls -= 1)
    if (!used.isNaN || charge.asked.isNaN) {
      val more = own.settled(charge, used) - charge.amount
      bounds.charge(more, charge.feedback)
      if (more > 0) missing += more else if (more < 0) giveBack(charge.slot, -more)
    }
  }

  private def giveBack(grant: Long, amount: Double): Unit = granted.get(grant).foreach(_.returns(amount))

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

  /** What the lender has to be told, as it is to be said now. */
  private def toldNow(now: Long): Option[Feedback] =
    told.filter(_.resetNanos == Feedback.NoReset).orElse {
      told.map(said => said.copy(resetNanos = said.resetNanos - (now - toldNanos))).filter(_.resetNanos > 0)
    }

  override def isClosed(now: Long): Boolean = bounds.isClosed(now)

  override def isBound(now: Long): Boolean = !bounds.isEmpty(now)

  /**
   * @param number that of the report
   * @param acked the last report that was answered
   * @param first the need of the first that waits, or null
   */
  def report(number: Long, acked: Long, first: Charge, now: Long): AmountUse = {
    if (toldIn > 0 && acked >= toldIn) told = None
    if (toldIn == 0) toldIn = number
    // What is too little for the first is of use to nobody here.
    if ((first ne null) && needOf(first) > left) drop()
    granted.filterInPlace((_, grant) => !grant.isToldIn(acked)): Unit
    val returned = granted.iterator.flatMap { case (of, grant) =>
      grant.newsIn(of, number, acked, of != current)
    }
    AmountUse(
      if (first eq null) 1.0 else if (first.asked.isNaN && !own.isKnown) Double.NaN else needOf(first),
      returned.toSeq,
      missing,
      own.sum,
      own.count,
      toldNow(now)
    )
  }

  /**
   * Takes the answer to a report.
   *
   * @param isLate true if that to a later one has come: then its amount goes back
   */
  def apply(number: Long, grant: AmountGrant, sentNanos: Long, isLate: Boolean): Unit = {
    if (!isLate) mean = grant.mean
    if (grant.amount > 0) {
      granted(number) = new Granted
      if (isLate) giveBack(number, grant.amount)
      else {
        drop()
        left = grant.amount
        current = number
        end = sentNanos + grant.lifeNanos
      }
    }
  }
}

private object LentAmounts {
  private final val Rounding = 1e-9

  /** What was granted with one answer: who is under way by it, and what of it was not used. */
  private final class Granted {
    var calls = 0
    private var returned = 0.0
    private var hasNews = false
    private var isOver = false

    /** The last report that had to tell of it. */
    private var lastIn = 0L

    def returns(amount: Double): Unit = {
      returned += amount
      hasNews = true
    }

    /** What the report of this number has to tell, as every one does until one is answered. */
    def newsIn(grant: Long, number: Long, acked: Long, isPast: Boolean): Option[Returned] = {
      val ends = isPast && calls == 0 && !isOver
      if (hasNews || ends) lastIn = number
      hasNews = false
      isOver ||= ends
      Option.when(lastIn > acked)(Returned(grant, returned, isOver))
    }

    /** True if the lender knows that nothing more comes of it. */
    def isToldIn(acked: Long): Boolean = isOver && acked >= lastIn
  }
}
