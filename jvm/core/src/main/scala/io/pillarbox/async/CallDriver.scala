package io.pillarbox.async

import java.util

import scala.annotation.unused
import scala.util.control.NonFatal

import io.pillarbox.async.InFlightElement._
import io.pillarbox.mailbox.{MailboxExecutor, ProcessingTimeService}

/**
 * Takes one element at a time from its first attempt to its rows: permits, deadlines, retries, failure policy.
 * Mailbox thread only. What may leave, and when, is not its business.
 *
 * @param finished
 *   called when an element has its rows
 * @param handler
 *   what a mail runs when attempts completed; it is to call `settleCompleted`, then `inbox.handled`
 */
private[async] final class CallDriver[IN, OUT](
    function: AsyncFunction[IN, OUT],
    options: AsyncOptions[IN, OUT],
    executor: MailboxExecutor,
    time: ProcessingTimeService,
    metrics: AsyncMetrics,
    finished: InFlightElement[IN, OUT] => Unit,
    handler: () => Unit
) {
  val inbox: CompletionInbox = new CompletionInbox(executor, () => handler())

  private[this] val gate = options.gate
  private[this] val isGated = gate ne CallGate.Unlimited
  private[this] val permits = new PermitLine[IN, OUT](gate, executor, e => startWithPermit(e))
  private[this] val retry = options.retry
  private[this] val hasDeadlines = options.totalTimeoutMs > 0 || options.attemptTimeoutMs > 0

  def nanoTime: Long = time.nanoTime

  /** Starts an attempt, now or when there is a permit. */
  def request(element: InFlightElement[IN, OUT]): Unit =
    if (isGated) {
      element.phase = Waiting
      element.setPhaseEnd(Never)
      setTimer(element)
      permits.enter(element)
    } else start(element)

  private def startWithPermit(element: InFlightElement[IN, OUT]): Unit = {
    element.holdsPermit = true
    start(element)
  }

  private def start(element: InFlightElement[IN, OUT]): Unit = {
    val attempt = nextAttempt(element)
    metrics.callCount += 1
    if (hasDeadlines) setDeadlines(element, time.processingTimeAt(attempt.startNanos))
    try function.asyncInvoke(element.input, attempt)
    catch { case NonFatal(error) => attempt.completeExceptionally(error) }
  }

  private def nextAttempt(element: InFlightElement[IN, OUT]): CallAttempt[IN, OUT] = {
    val now = time.nanoTime
    element.started(now)
    element.phase = Running
    element.current = new CallAttempt(inbox, element, element.attempts, now)
    element.current
  }

  private def setDeadlines(element: InFlightElement[IN, OUT], now: Long): Unit = {
    if (element.attempts == 1 && options.totalTimeoutMs > 0)
      element.setTotalDeadline(now + options.totalTimeoutMs)
    element.setPhaseEnd(if (options.attemptTimeoutMs > 0) now + options.attemptTimeoutMs else Never)
    setTimer(element)
  }

  /** One timer an element, for whichever comes first of all that it waits for. */
  private def setTimer(element: InFlightElement[IN, OUT]): Unit = {
    val next = math.min(element.totalDeadlineMs, element.phaseEndMs)
    if (next != Never) time.schedule(element.timerOrNull, next)
    else cancelTimer(element)
  }

  private def cancelTimer(element: InFlightElement[IN, OUT]): Unit = {
    val timer = element.timerOrNull
    if ((timer ne null) && timer.isScheduled) CallDriver.ignore(time.cancel(timer))
  }

  /** Takes the answers that have come. An attempt that was abandoned is not among them. */
  def settleCompleted(): Unit = {
    var attempt = inbox.takeAll().asInstanceOf[CallAttempt[IN, OUT]]
    while (attempt ne null) {
      val following = attempt.next.asInstanceOf[CallAttempt[IN, OUT]]
      attempt.next = null
      // A reading of the clock costs as much as the rest of this loop.
      if (metrics.samplesLatency()) metrics.latency.record(time.nanoTime - attempt.startNanos)
      settleOrKeepRest(attempt, following)
      attempt = following
    }
  }

  /** A failure policy may throw; the answers behind it must not be lost if the caller carries on. */
  private def settleOrKeepRest(attempt: CallAttempt[IN, OUT], rest: CallAttempt[IN, OUT]): Unit =
    try settle(attempt)
    catch {
      case error: Throwable =>
        var kept = rest
        while (kept ne null) {
          val following = kept.next.asInstanceOf[CallAttempt[IN, OUT]]
          inbox.push(kept)
          kept = following
        }
        throw error
    }

  private def settle(attempt: CallAttempt[IN, OUT]): Unit = {
    val element = attempt.element
    releasePermit(element)
    if (attempt.isFailure) failed(element, attempt.error)
    else if (retry.checksResults && mayRetry(element) && retry.retryOnResult(rowsOf(attempt)))
      backOff(element, retry.backoffMs(element.attempts))
    else {
      if (attempt.isOneRow) element.setResult(attempt.row) else element.setResults(attempt.rows)
      finish(element)
    }
  }

  private def rowsOf(attempt: CallAttempt[IN, OUT]): util.Collection[OUT] =
    if (attempt.isOneRow) util.Collections.singletonList(attempt.row) else attempt.rows

  /** Once the total deadline has passed there is no further attempt, whatever the last one ends with. */
  private def mayRetry(element: InFlightElement[IN, OUT]): Boolean =
    retry.canRetry(element.attempts) &&
      (element.totalDeadlineMs == Never || time.currentProcessingTime < element.totalDeadlineMs)

  private def failed(element: InFlightElement[IN, OUT], error: Throwable): Unit =
    if (mayRetry(element) && !error.isInstanceOf[NotRetryable] && retry.retryOnException(error))
      backOff(element, delayAfter(element, error))
    else giveUp(element, error)

  private def delayAfter(element: InFlightElement[IN, OUT], error: Throwable): Long = error match {
    case own: HasRetryDelay => math.max(0L, own.retryDelayMs)
    case _ => retry.backoffMs(element.attempts)
  }

  private def backOff(element: InFlightElement[IN, OUT], delayMs: Long): Unit = {
    metrics.retryCount += 1
    element.current = null
    element.phase = BackingOff
    element.setPhaseEnd(saturatedSum(time.currentProcessingTime, delayMs))
    setTimer(element)
  }

  /** `Never` means no timer at all, so even the longest delay stays below it. */
  private def saturatedSum(now: Long, delayMs: Long): Long =
    if (delayMs >= Never - 1 - now) Never - 1 else now + delayMs

  private def giveUp(element: InFlightElement[IN, OUT], error: Throwable): Unit = {
    metrics.errorCount += 1
    var rows: util.Collection[OUT] = util.Collections.emptyList[OUT]()
    // The slot is freed even if the policy throws, as in Flink: whoever waits for room must not wait for ever.
    try rows = rowsInstead(element, error)
    finally {
      element.setResults(rows)
      finish(element)
    }
  }

  private def rowsInstead(element: InFlightElement[IN, OUT], error: Throwable): util.Collection[OUT] = {
    val rows = options.onFailure.onFailure(element.input, error, element.attempts, element.elapsedMs)
    if (rows eq null)
      throw new NullPointerException(
        "The failure policy returned null: return an empty collection to emit nothing."
      )
    rows
  }

  private def finish(element: InFlightElement[IN, OUT]): Unit = {
    element.phase = Finished
    element.current = null
    cancelTimer(element)
    metrics.finished()
    finished(element)
  }

  /** The timer of the element has fired. What this finishes is emitted by the next mail. */
  def onDeadline(element: InFlightElement[IN, OUT]): Unit = if (element.phase != Finished)
    try decideDeadline(element)
    finally if (element.phase == Finished) inbox.runSoon()

  private def decideDeadline(element: InFlightElement[IN, OUT]): Unit = {
    val now = time.currentProcessingTime
    if (now >= element.totalDeadlineMs) onTotalTimeout(element)
    else if (now < element.phaseEndMs) setTimer(element)
    else if (element.phase == BackingOff) request(element)
    else if (element.phase == Running) onAttemptTimeout(element)
  }

  private def onAttemptTimeout(element: InFlightElement[IN, OUT]): Unit = {
    val attempt = element.current
    // An answer that won is on its way to settle, and decides.
    if (attempt.abandon()) {
      metrics.timeoutCount += 1
      releasePermit(element)
      tellCancelled(element, attempt)
      val elapsedMs = (time.nanoTime - attempt.startNanos) / 1000000L
      failed(element, AsyncTimeoutException.attempt(attempt.attempt, elapsedMs))
    }
  }

  /**
   * The function decides what becomes of the element, through the future of the attempt under way: so an answer that
   * comes first wins, and one that comes later is dropped. Between attempts there is none, and it gets a fresh one.
   */
  private def onTotalTimeout(element: InFlightElement[IN, OUT]): Unit = {
    val wasRunning = element.phase == Running
    if (!wasRunning) {
      element.phase = Running
      element.current = new CallAttempt(inbox, element, element.attempts, time.nanoTime)
    }
    val attempt = element.current
    if (!attempt.isDone) {
      metrics.timeoutCount += 1
      try function.timeout(element.input, attempt)
      catch { case NonFatal(error) => attempt.completeExceptionally(error) }
      if (wasRunning && attempt.isDone) tellCancelled(element, attempt)
    }
  }

  /** Cancelling is a courtesy to the function; if that fails, the element is decided all the same. */
  private def tellCancelled(element: InFlightElement[IN, OUT], attempt: CallAttempt[IN, OUT]): Unit =
    try function.cancel(element.input, attempt)
    catch { case NonFatal(error) => CallDriver.log.warn("Could not cancel {}", attempt, error) }

  private def releasePermit(element: InFlightElement[IN, OUT]): Unit = if (element.holdsPermit) {
    element.holdsPermit = false
    gate.release()
  }

  /** Abandons the element: its call is cancelled, its permit and timer given back. */
  def abandon(element: InFlightElement[IN, OUT]): Unit = if (element.phase != Finished) {
    cancelTimer(element)
    val attempt = element.current
    if ((attempt ne null) && attempt.abandon()) tellCancelled(element, attempt)
    releasePermit(element)
    element.phase = Finished
    metrics.finished()
  }

  def close(): Unit = permits.close()
}

private[async] object CallDriver {
  def ignore(@unused value: Boolean): Unit = ()

  private val log = org.slf4j.LoggerFactory.getLogger(classOf[AsyncWaitOperator[_, _]])
}
