package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.metered.limit._

/**
 * Divides a rate over processes. One thread at a time.
 *
 * An amount is lent for a short time, and counts into the slot in which that ends: it is used before,
 * whenever that is, and so what is used in any stretch of the interval is within the limit, as [[ChargeWindow]] has
 * it. What a process that is lost was lent counts as used. What one returns is taken from the slot into which
 * it counts.
 *
 * Processes that wait get equal parts of what there is. If the part of each would not be enough for its first
 * call, those go first that were served longest ago.
 */
private[lease] final class AmountAllocator(terms: LimitTerms) {
  import AmountAllocator._

  private val accounts = mutable.LinkedHashMap.empty[String, Account]
  private val window = new ChargeWindow(terms.most, terms.intervalNanos)
  private val spacing =
    new Spacing(
      (window.holdNanos + LeaseTimes.tokenNanos(terms)) / terms.most,
      LeaseTimes.tokenNanos(terms),
      window.creditNanos
    )
  private val bounds = new FeedbackBounds(terms.intervalNanos)
  private var reported = 0.0
  private var reports = 0L
  private var served = 0L

  /** True if a new one would lend just as much. */
  def isFull(now: Long): Boolean =
    window.isEmpty(now) && spacing.waitNanos(now) == 0 && bounds.isEmpty(now)

  /** Takes a report; the lender has made sure that none is taken twice, or out of order. */
  def receive(process: String, report: LimitReport, now: Long): Unit = {
    accounts.filterInPlace((_, account) => now - account.reportedNanos < account.keptNanos): Unit
    val known = if (report.number > 1) report.use else AmountUse.NoRate
    val account = accounts.getOrElseUpdate(process, new Account(known))
    account.receive(report, now)
    report.use.told.foreach(learn(_, now))
  }

  /** What is lent may yet be used: it is taken off from what the service says is left, until it comes back. */
  private def learn(said: Feedback, now: Long): Unit = {
    val open = accounts.valuesIterator.flatMap(_.open(now)).toSeq
    bounds.receive(said.copy(remaining = said.remaining - open.map(_.left).sum), now)
    open.foreach(_.feedback = bounds.last)
  }

  /**
   * @param number that of the report that it answers
   * @param reportNanos the time after which it reports again
   * @param isPaused true if nobody may begin
   */
  def grant(
      process: String,
      number: Long,
      reportNanos: Long,
      isPaused: Boolean,
      now: Long
  ): AmountGrant = {
    val life = math.max(LeaseTimes.tokenNanos(terms), 2 * reportNanos)
    val account = accounts(process)
    account.nextReportNanos = reportNanos
    val amount = if (isPaused || !account.isWaiting) 0.0 else partOf(account, life, now)
    if (amount > 0) lend(account, number, amount, now + life, now)
    AmountGrant(amount, life, mean)
  }

  private def lend(account: Account, number: Long, amount: Double, until: Long, now: Long): Unit = {
    served += 1
    account.served = served
    spacing.charge(amount, now)
    bounds.charge(amount, bounds.last)
    account.lends(number, new Lent(amount, window.charge(amount, until), until, bounds.last))
  }

  /** True if calls have reported what they use. */
  def knowsMean: Boolean = reports > 0

  private def mean = if (reports > 0) reported / reports.toDouble else Double.NaN

  private def partOf(account: Account, life: Long, now: Long): Double = {
    val first = firstOf(account)
    val room = math.min(window.room(now), bounds.room(now))
    // Of many processes each reports seldom, and more of them must be able to have an amount meanwhile.
    val available = spacing.available(now, 2 * (life - LeaseTimes.tokenNanos(terms)))
    val waiting = accounts.valuesIterator.filter(a => a.isWaiting && now - a.reportedNanos < life)
    var (count, ahead) = (0, 0.0)
    waiting.foreach { other =>
      count += 1
      if (other.served < account.served) ahead += firstOf(other)
    }
    val part = math.min(available, room) / math.max(1, count)
    // What is left of it comes back soon; but meanwhile others could not have it.
    if (part >= first) if (count > 1 && first > 0) first * math.floor(part / first) else part
    else if (available - ahead >= 0 && room - ahead >= first - terms.most * 1e-9) first
    else 0.0
  }

  private def firstOf(account: Account): Double =
    if (!account.first.isNaN) account.first else if (reports > 0) math.min(terms.most, mean) else terms.most

  /** @param known the sums that count no more: those of a process that was forgotten, or of another allocator */
  private final class Account(known: AmountUse) {
    var reportedNanos = 0L
    var isWaiting = false
    var hasLeft = false
    var first = 1.0

    /** The time after its last report within which the next one comes. */
    var nextReportNanos = 0L

    /** The number of its last grant among all. */
    var served = 0L

    /** What it was lent and may yet return, by the number of the grant. */
    private val lent = mutable.LinkedHashMap.empty[Long, Lent]
    private var last: Lent = _
    private var missing = known.missing
    private var ownReported = known.reported
    private var ownReports = known.reports

    /** It is kept until what it was lent counts no more, and while it may report again. */
    def keptNanos: Long = {
      val counts = 2 * window.holdNanos
      if (hasLeft) math.min(LeftNanos, counts)
      else math.max(counts, LeaseTimes.leaseNanosOf(nextReportNanos))
    }

    def lends(number: Long, amount: Lent): Unit = {
      lent(number) = amount
      last = amount
    }

    /** What it has and may use. */
    def open(now: Long): Option[Lent] = Option(last).filter(one => one.left > 0 && now - one.until < 0)

    def receive(report: LimitReport, now: Long): Unit = {
      reportedNanos = now
      isWaiting = report.isWaiting
      hasLeft = report.leaves
      first = report.use.first
      takeBack(report.use.returned, now)
      if (report.use.reports > ownReports) {
        reported += report.use.reported - ownReported
        reports += report.use.reports - ownReports
        ownReported = report.use.reported
        ownReports = report.use.reports
      }
      val more = report.use.missing - missing
      if (more > 0) {
        missing = report.use.missing
        spacing.charge(more, now)
        window.charge(more, now): Unit
      }
    }

    /** Grants of another allocator, or of before it was forgotten, change nothing. */
    private def takeBack(all: Seq[Returned], now: Long): Unit =
      for { one <- all; from <- lent.get(one.grant) } {
        val back = one.sum - from.returned
        if (back > 0) {
          from.returned = one.sum
          spacing.giveBack(back, now)
          window.giveBack(from.slot, back)
          bounds.charge(-back, from.feedback)
        }
        if (one.isOver) lent.remove(one.grant): Unit
      }
  }
}

private object AmountAllocator {

  /** Longer than a message is under way: an old report of one that has left must not be taken for news. */
  private val LeftNanos = TimeUnit.MINUTES.toNanos(5)

  /**
   * A part that a process was lent.
   *
   * @param slot that of the window into which it counts
   * @param feedback the number of the last feedback when it was lent, or of one from which it was taken off
   */
  private final class Lent(amount: Double, val slot: Long, val until: Long, var feedback: Long) {
    var returned = 0.0

    def left: Double = amount - returned
  }
}
