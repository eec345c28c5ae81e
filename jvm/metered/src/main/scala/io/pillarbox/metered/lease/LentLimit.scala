package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import io.pillarbox.metered.limit._

/**
 * A process's part in a limit that is lent: an attempt needs one of its permits, and an amount if there is a
 * rate.
 *
 * While it has permits, or waits, it reports to the lender several times a second; permits that nobody needs
 * go back within a second. While the lender can't be reached it uses what it has until its lease ends, and
 * then waits. An attempt that is under way then goes on.
 *
 * @param key names it for the lender
 * @param borrower takes its reports there
 */
private[pillarbox] final class LentLimit(
    key: LimitKey,
    terms: LimitTerms,
    overload: Overload,
    clock: LimitClock,
    borrower: Borrower,
    breaker: Breaker = null
) extends Limit(clock, breaker, overload)
    with Borrowed {
  import LentLimit._

  private var permits = 0
  private var leaseEnd = 0L
  override protected val amounts: LentAmounts = if (terms.hasRate) new LentAmounts(terms) else null
  private var reportNanos = LeaseTimes.reportNanos(terms)

  private var sent = 0L
  private var applied = 0L

  /** The last report that the lender has answered. */
  private var acked = 0L
  private var isReporting = false
  private var idleReports = 0

  /** The end of the pause that began here, which the lender is told; one that it grants may last longer. */
  private var hasOwnPause = false
  private var ownPauseEnd = 0L

  private var answered = 0
  private var hasOverload = false
  private var overloadStart = 0L

  override def name: String = key.name

  override def isAlone: Boolean = false

  /** A part is returned in the background, which must be over before there is another one. */
  override def keepNanos: Long = math.max(terms.intervalNanos, LocalLimit.LearnedNanos)

  override private[metered] def take(charge: Charge): Unit = {
    super.take(charge)
    startReporting()
  }

  override private[metered] def enqueue(one: Reservation): Unit = {
    super.enqueue(one)
    startReporting()
  }

  private def startReporting(): Unit = if (!isReporting) {
    isReporting = true
    idleReports = 0
    borrower.due(this, 0L)
  }

  /** The permits that this process has, in use or not, and that its lease still covers. */
  override private[metered] def mostNow: Int = {
    if (permits > 0 && clock.nanoTime - leaseEnd >= 0) permits = 0
    permits
  }

  override private[metered] def pauseFor(nanos: Long): Unit = {
    val now = clock.nanoTime
    super.pauseFor(nanos)
    if (nanos > ownPauseLeft(now)) {
      hasOwnPause = true
      ownPauseEnd = now + math.min(nanos, Overload.LongestPauseNanos)
    }
  }

  private def ownPauseLeft(now: Long): Long = {
    if (ownPauseEnd - now <= 0) hasOwnPause = false
    if (hasOwnPause) ownPauseEnd - now else 0L
  }

  override def report(): LimitReport = {
    var report: LimitReport = null
    Limiter.change(parts) {
      if (amounts ne null) amounts.expire(clock.nanoTime)
      val isIdle = inFlight == 0 && !hasWaiters
      idleReports = if (isIdle) idleReports + 1 else 0
      isReporting = idleReports * reportNanos < IdleNanos
      if (isReporting) borrower.due(this, reportNanos) else giveAllBack()
      report = nextReport()
    }
    report
  }

  /** True if it has nothing of the lender, which knows that. Any thread. */
  override def isReturned: Boolean = Limiter.locked(!isReporting && acked == sent)

  private def giveAllBack(): Unit = {
    permits = 0
    if (amounts ne null) amounts.drop()
    // Answers under way come too late.
    applied = sent + 1
  }

  private def nextReport(): LimitReport = {
    val now = clock.nanoTime
    sent += 1
    val report = LimitReport(
      key.value,
      terms,
      sent,
      applied,
      if (terms.calls > 0) permits else 0,
      inFlight,
      hasWaiters,
      answered,
      if (hasOverload) math.max(0L, now - overloadStart) else -1L,
      ownPauseLeft(now),
      if (amounts eq null) AmountUse.NoRate else amounts.report(sent, acked, firstWaiting, now)
    )
    answered = 0
    hasOverload = false
    report
  }

  override def granted(report: Report, answer: Grant, sentNanos: Long): Unit = Limiter.change(parts) {
    val (number, grant) = (report.number, answer.asInstanceOf[LimitGrant])
    val isLate = number <= applied
    acked = math.max(acked, number)
    if (amounts ne null) amounts(number, grant.amount, sentNanos, isLate)
    if (!isLate) {
      applied = number
      permits = grant.permits
      leaseEnd = sentNanos + LeaseTimes.leaseNanosOf(grant.reportNanos)
      reportNanos = grant.reportNanos
      lengthenPause(grant.pauseNanos)
    }
  }

  override private[metered] def learns: Boolean = super.learns || terms.adaptive

  override private[metered] def learn(startNanos: Long, error: Throwable, pauseMs: Long): Unit = {
    super.learn(startNanos, error, pauseMs)
    if (!terms.adaptive) ()
    else if (error eq null) answered += 1
    else if (pauseMs >= 0) {
      if (!hasOverload || startNanos - overloadStart > 0) overloadStart = startNanos
      hasOverload = true
      pauseFor(TimeUnit.MILLISECONDS.toNanos(pauseMs))
    }
  }
}

private object LentLimit {

  /** The time after which permits that are not needed go back. */
  private val IdleNanos = TimeUnit.MILLISECONDS.toNanos(500)
}
