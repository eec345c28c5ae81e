package io.pillarbox.async.lease

import java.util
import java.util.concurrent.TimeUnit

import io.pillarbox.async.gate.{CallGate, GateClock, Overload}

/**
 * A process's part in a limit that is lent: an attempt needs a permit of those that it has, and a token if
 * there is a rate. Waiters are served in the order they came.
 *
 * While it has permits, or waits, it tells the lender several times a second; permits that nobody needs go
 * back within a second. While the lender can't be reached it uses what it has until its lease ends, and then
 * waits. An attempt that is under way then goes on.
 *
 * @param send
 *   tells the lender, and answers on any thread, or never. Must not block
 */
private[pillarbox] final class LeasedGate(
    terms: LeaseTerms,
    overload: Overload,
    clock: GateClock,
    send: (LeaseReport, LeaseGrant => Unit) => Unit
) extends CallGate {
  import LeasedGate._

  private val waiters = new util.ArrayDeque[Runnable]
  private var out = 0

  private var permits = 0
  private var leaseEnd = 0L
  private var tokens = 0
  private var tokenEnd = 0L
  private var isPaused = false
  private var pausedUntil = 0L

  private var sent = 0L
  private var applied = 0L
  private var isTicking = false
  private var idleTicks = 0

  private var answered = 0
  private var hasOverload = false
  private var overloadStart = 0L

  override def tryAcquire(waiter: Runnable): Boolean = {
    val (granted, report) = synchronized {
      val granted = waiters.isEmpty && take()
      if (!granted) waiters.addLast(waiter)
      (granted, if (granted || isTicking) null else startTicking())
    }
    if (report != null) deliver(report)
    granted
  }

  private def take(): Boolean = {
    val now = clock.nanoTime
    expire(now)
    val granted = !isPaused && out < permits && (terms.starts == 0 || tokens > 0)
    if (granted) {
      out += 1
      if (terms.starts > 0) tokens -= 1
    }
    granted
  }

  private def expire(now: Long): Unit = {
    if (permits > 0 && now - leaseEnd >= 0) permits = 0
    if (tokens > 0 && now - tokenEnd >= 0) tokens = 0
    if (isPaused && now - pausedUntil >= 0) isPaused = false
  }

  private def startTicking(): LeaseReport = {
    isTicking = true
    idleTicks = 0
    clock.schedule(terms.reportNanos, () => tick())
    nextReport()
  }

  private def tick(): Unit = {
    val report = synchronized {
      expire(clock.nanoTime)
      val isIdle = out == 0 && waiters.isEmpty
      idleTicks = if (isIdle) idleTicks + 1 else 0
      val leaves = idleTicks * terms.reportNanos >= IdleNanos
      if (leaves) giveAllBack()
      isTicking = !leaves
      if (isTicking) clock.schedule(terms.reportNanos, () => tick())
      nextReport()
    }
    deliver(report)
    serve()
  }

  private def giveAllBack(): Unit = {
    permits = 0
    tokens = 0
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
      !waiters.isEmpty,
      answered,
      if (hasOverload) math.max(0L, now - overloadStart) else -1L,
      if (isPaused) math.max(0L, pausedUntil - now) else 0L
    )
    answered = 0
    hasOverload = false
    report
  }

  /** What is lost with a message was not important, but for the pause, which is told again. */
  private def deliver(report: LeaseReport): Unit = {
    val sentNanos = clock.nanoTime
    send(report, grant => apply(report.number, sentNanos, grant))
  }

  private def apply(number: Long, sentNanos: Long, grant: LeaseGrant): Unit = {
    synchronized {
      if (number > applied) {
        applied = number
        permits = grant.permits
        leaseEnd = sentNanos + LeaseTerms.LeaseNanos
        tokens = grant.tokens
        tokenEnd = sentNanos + terms.tokenNanos
        if (grant.pauseNanos > 0) pause(clock.nanoTime + grant.pauseNanos)
      }
    }
    serve()
  }

  private def pause(until: Long): Unit = if (!isPaused || until - pausedUntil > 0) {
    isPaused = true
    pausedUntil = until
  }

  override def observe(startNanos: Long, error: Throwable): Unit = if (terms.adaptive) {
    val pauseMs = if (error eq null) Overload.No else overload.pauseMs(error)
    synchronized {
      if (error eq null) answered += 1
      else if (pauseMs >= 0) {
        if (!hasOverload || startNanos - overloadStart > 0) overloadStart = startNanos
        hasOverload = true
        val nanos = TimeUnit.MILLISECONDS.toNanos(math.min(pauseMs, Overload.LongestPauseMs))
        if (nanos > 0) pause(clock.nanoTime + nanos)
      }
    }
  }

  /** @throws IllegalStateException if more permits come back than went out */
  override def release(): Unit = {
    synchronized {
      if (out == 0) throw new IllegalStateException("A permit was released that nobody held: all are free.")
      out -= 1
    }
    serve()
  }

  /** Waiters run outside the lock: they may come back at once. */
  private def serve(): Unit = {
    val served = new util.ArrayList[Runnable]
    synchronized {
      while (!waiters.isEmpty && take()) served.add(waiters.pollFirst())
    }
    served.forEach(_.run())
  }

  override def cancel(waiter: Runnable): Boolean = synchronized(waiters.remove(waiter))

  override def mayBegin: Boolean = synchronized(!isPaused || clock.nanoTime - pausedUntil >= 0)

  /** Those that this process has, in use or not, and that its lease still covers. */
  override def limitNow: Int = synchronized {
    expire(clock.nanoTime)
    permits
  }

  /** Attempts under way here. */
  def inUse: Int = synchronized(out)
}

private object LeasedGate {

  /** Permits that were not needed for so long go back. */
  private val IdleNanos = TimeUnit.MILLISECONDS.toNanos(500)
}
