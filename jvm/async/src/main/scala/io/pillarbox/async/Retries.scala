package io.pillarbox.async

import java.util.concurrent.ThreadLocalRandom

import scala.util.control.NonFatal

import io.pillarbox.api.{NotRetryable, RetryAfter}
import io.pillarbox.async.retry.FutureWrappers

/** Sends a call on again, after a delay, if an attempt has failed. It waits here. Mailbox thread only. */
private[async] final class Retries[IN, OUT](pipeline: CallPipeline[IN, OUT]) extends Stage[IN, OUT] {
  import Retries._

  private val retry = pipeline.options.retry
  private var waiting = 0

  override def enter(call: Call): Unit = goOn(call)

  /**
   * Retries an attempt unless the total deadline has passed, or it is a shared call that no element waits for.
   * A pause of the whole limit is no attempt.
   */
  override def ended(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    val isAwaited = !call.isCarrier || !call.share.sharers.isEmpty
    val isAttempt = attempt.isFailure && !attempt.isStandIn
    !(isAttempt && !call.isOverdue && isAwaited && retries(call, attempt))
  }

  private def retries(call: Call, attempt: CallAttempt[IN, OUT]): Boolean = {
    val cause = FutureWrappers.unwrapped(attempt.error)
    val isPause = pipeline.options.isLimited && Retries.pausesAll(cause)
    if (isPause) call.pauses += 1
    val isWorthIt = isPause || (retry.canRetry(call.attempts - call.pauses) &&
      !cause.isInstanceOf[NotRetryable] && retry.retryOnException(cause))
    isWorthIt && backOffAfter(call, attempt, cause)
  }

  /** Backs off; an exception that can't say when to come back fails the call itself. */
  private def backOffAfter(call: Call, attempt: CallAttempt[IN, OUT], cause: Throwable): Boolean = {
    var delayMs = -1L
    try delayMs = delayAfter(attempt, cause)
    catch { case NonFatal(problem) => attempt.fail(problem) }
    if (delayMs >= 0) {
      pipeline.options.onFailure.onRetry(call.input, call.attempts, cause)
      val isAsked = cause.isInstanceOf[RetryAfter]
      backOff(call, delayMs, startOf(if (isAsked) null else attempt.group, delayMs))
    }
    delayMs >= 0
  }

  private def delayAfter(attempt: CallAttempt[IN, OUT], cause: Throwable): Long = cause match {
    case own: RetryAfter => math.max(0L, own.retryAfterMs)
    case _ => retry.backoffMs(attempt.attempt, drawOf(attempt.group))
  }

  private def drawOf(group: CallGroup[IN, OUT]): Double =
    if (group eq null) ThreadLocalRandom.current().nextDouble() else group.draw

  /**
   * Counts the wait from now, or from when the first of its group failed: answers of a group are not taken at
   * one time. A wait is a tenth shorter at most, and one that was asked for is none shorter.
   */
  private def startOf(group: CallGroup[IN, OUT], delayMs: Long): Long = {
    val now = pipeline.time.nanoTime
    if (group eq null) now
    else math.max(group.failedAt(now), now - math.min(delayMs, LongestBackOffMs) * 100000L)
  }

  private def backOff(call: Call, delayMs: Long, startNanos: Long): Unit = {
    waiting += 1
    call.at = this
    call.current = null
    pipeline.deadlines.backsOff(call, startNanos, delayMs)
  }

  override def due(call: Call): Unit = {
    waiting -= 1
    pipeline.deadlines.waits(call)
    goOn(call)
  }

  override def withdraw(call: Call): Unit = waiting -= 1

  override def inputPauses(): Boolean = waiting == 0
}

private[async] object Retries {

  /** A day; longer ones count as this. */
  private final val LongestBackOffMs = 86400000L

  /** True if the whole limit is to wait. */
  def pausesAll(cause: Throwable): Boolean = cause match {
    case own: RetryAfter => own.all
    case _ => false
  }
}
