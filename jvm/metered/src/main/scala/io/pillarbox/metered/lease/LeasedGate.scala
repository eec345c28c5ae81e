package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import io.pillarbox.metered.limit.{Claim, GateClock, Overload, PausingGate, Told}

/**
 * A process's part in a limit that is lent: an attempt needs one of its permits, and a token if there is a
 * rate.
 *
 * While it has permits, or waits, it reports to the lender several times a second; permits that nobody needs
 * go back within a second. While the lender can't be reached it uses what it has until its lease ends, and
 * then waits. An attempt that is under way then goes on.
 *
 * @param send sends a report to the lender, and answers on any thread, or never. Must not block
 */
private[pillarbox] final class LeasedGate(
    terms: LeaseTerms,
    overload: Overload,
    gateClock: GateClock,
    send: (LeaseReport, LeaseGrant => Unit) => Unit
) extends PausingGate(gateClock) {
  import LeasedGate._

  private var permits = 0
  private var leaseEnd = 0L
  private val pool = if (terms.hasRate) new AmountPool(terms) else null
  private var reportNanos = terms.reportNanos

  private var sent = 0L
  private var applied = 0L

  /** The last report that the lender has answered. */
  private var acked = 0L
  private var isTicking = false
  private var idleTicks = 0

  /** The end of the pause that began here, which the lender is told; one that it grants may last longer. */
  private var hasOwnPause = false
  private var ownPauseEnd = 0L

  private var answered = 0
  private var hasOverload = false
  private var overloadStart = 0L

  override def tryAcquire(waiter: Runnable): Boolean = {
    val (granted, report) = synchronized {
      val granted = takeOrWait(waiter)
      (granted, if (granted || isTicking) null else startTicking())
    }
    if (report != null) deliver(report)
    granted
  }

  override protected def take(waiter: Runnable): Boolean = {
    val now = clock.nanoTime
    expire(now)
    val granted = !isPaused(now) && out < permits && (pool == null || pool.take(waiter, now))
    if (granted) out += 1
    granted
  }

  private def expire(now: Long): Unit = {
    if (permits > 0 && now - leaseEnd >= 0) permits = 0
    if (pool != null) pool.expire(now)
  }

  override private[metered] def settle(claim: Claim, used: Double): Unit = {
    if (pool != null) synchronized(pool.settle(claim, used))
    release()
  }

  override private[metered] def giveBack(claim: Claim): Unit = {
    if (pool != null) synchronized(pool.unused(claim, clock.nanoTime))
    release()
  }

  override private[metered] def hears: Boolean = pool != null

  override private[metered] def hear(said: Told): Unit =
    if (pool != null) synchronized(pool.hear(said, clock.nanoTime))

  override def mayBegin: Boolean =
    super.mayBegin && (pool == null || synchronized(pool.mayBegin(clock.nanoTime)))

  override def pause(nanos: Long): Unit = synchronized(pauseHere(nanos))

  private def pauseHere(nanos: Long): Unit = {
    val now = clock.nanoTime
    lengthenPause(nanos)
    if (nanos > ownPauseLeft(now)) {
      hasOwnPause = true
      ownPauseEnd = now + math.min(nanos, Overload.LongestPauseNanos)
    }
  }

  private def ownPauseLeft(now: Long): Long = {
    if (ownPauseEnd - now <= 0) hasOwnPause = false
    if (hasOwnPause) ownPauseEnd - now else 0L
  }

  private def startTicking(): LeaseReport = {
    isTicking = true
    idleTicks = 0
    clock.schedule(reportNanos, () => tick())
    nextReport()
  }

  private def tick(): Unit = {
    val report = synchronized {
      expire(clock.nanoTime)
      val isIdle = out == 0 && !hasWaiters
      idleTicks = if (isIdle) idleTicks + 1 else 0
      val leaves = idleTicks * reportNanos >= IdleNanos
      if (leaves) giveAllBack()
      isTicking = !leaves
      if (isTicking) clock.schedule(reportNanos, () => tick())
      nextReport()
    }
    deliver(report)
    serve()
  }

  /** True if it has nothing of the lender, which knows that. */
  def isReturned: Boolean = synchronized(!isTicking && acked == sent)

  private def giveAllBack(): Unit = {
    permits = 0
    if (pool != null) pool.drop()
    // Answers under way come too late.
    applied = sent + 1
  }

  private def nextReport(): LeaseReport = {
    val now = clock.nanoTime
    sent += 1
    val report = LeaseReport(
      sent,
      applied,
      if (terms.calls > 0) permits else 0,
      out,
      hasWaiters,
      answered,
      if (hasOverload) math.max(0L, now - overloadStart) else -1L,
      ownPauseLeft(now),
      if (pool == null) AmountUse.NoRate else pool.report(sent, acked, head, now)
    )
    answered = 0
    hasOverload = false
    report
  }

  /** Sends a report. The loss of one does no harm; a pause is told again. */
  private def deliver(report: LeaseReport): Unit = {
    val sentNanos = clock.nanoTime
    send(report, grant => apply(report.number, sentNanos, grant))
  }

  private def apply(number: Long, sentNanos: Long, grant: LeaseGrant): Unit = {
    synchronized {
      acked = math.max(acked, number)
      if (number <= applied) {
        if (pool != null) pool.overtaken(grant.amount)
      } else {
        applied = number
        permits = grant.permits
        leaseEnd = sentNanos + LeaseTerms.leaseNanosOf(grant.reportNanos)
        reportNanos = grant.reportNanos
        if (pool != null) pool.apply(grant.amount, sentNanos)
        lengthenPause(grant.pauseNanos)
      }
    }
    serve()
  }

  override def observe(startNanos: Long, error: Throwable): Unit = if (terms.adaptive) {
    val pauseMs = if (error eq null) Overload.No else overload.pauseMs(error)
    synchronized {
      if (error eq null) answered += 1
      else if (pauseMs >= 0) {
        if (!hasOverload || startNanos - overloadStart > 0) overloadStart = startNanos
        hasOverload = true
        pauseHere(nanosOf(pauseMs))
      }
    }
  }

  /** The permits that this process has, in use or not, and that its lease still covers. */
  override def limitNow: Int = synchronized {
    expire(clock.nanoTime)
    permits
  }
}

private object LeasedGate {

  /** The time after which permits that are not needed go back. */
  private val IdleNanos = TimeUnit.MILLISECONDS.toNanos(500)
}
