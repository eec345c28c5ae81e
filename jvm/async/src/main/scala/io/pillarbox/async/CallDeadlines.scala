package io.pillarbox.async

import io.pillarbox.async.InFlightElement.Never
import io.pillarbox.mailbox.ProcessingTimeService

/**
 * The deadlines of elements: of all their attempts, and of the phase that each is in. An element has one
 * timer, for the earlier of the two. Mailbox thread only.
 */
private[async] final class CallDeadlines[IN, OUT](
    options: AsyncOptions[IN, OUT],
    time: ProcessingTimeService
) {
  private val hasAny = options.totalTimeoutMs > 0 || options.attemptTimeoutMs > 0

  /** Lets the element wait without a deadline of its phase. */
  def waits(element: InFlightElement[IN, OUT]): Unit = {
    element.setPhaseEnd(Never)
    schedule(element)
  }

  /** Lets it wait for its next attempt, `delayMs` from a moment of `nanoTime`. */
  def backsOff(element: InFlightElement[IN, OUT], startNanos: Long, delayMs: Long): Unit = {
    element.setPhaseEnd(saturatedSum(time.roundedUp(startNanos), delayMs))
    schedule(element)
  }

  /** Stays below `Never`, which means no timer at all. */
  private def saturatedSum(now: Long, delayMs: Long): Long =
    if (delayMs >= Never - 1 - now) Never - 1 else now + delayMs

  /** Begins an attempt; the first one also starts the element's total time, or that of its sharers. */
  def begins(element: InFlightElement[IN, OUT], nowNanos: Long): Unit = {
    val isFirst = !element.hasStarted
    element.started(nowNanos)
    if (isFirst && element.isCarrier) element.share.sharers.forEach(joins(_))
    if (hasAny) setDeadlines(element, time.roundedUp(nowNanos), isFirst && !element.isCarrier)
  }

  private def setDeadlines(element: InFlightElement[IN, OUT], now: Long, isFirst: Boolean): Unit = {
    if (isFirst) setTotal(element, now)
    element.setPhaseEnd(if (options.attemptTimeoutMs > 0) now + options.attemptTimeoutMs else Never)
    schedule(element)
  }

  /** Starts the total time of an element that shares a call. */
  def joins(element: InFlightElement[IN, OUT]): Unit = {
    val now = time.nanoTime
    element.started(now)
    if (options.totalTimeoutMs > 0) {
      setTotal(element, time.roundedUp(now))
      schedule(element)
    }
  }

  private def setTotal(element: InFlightElement[IN, OUT], now: Long): Unit =
    if (options.totalTimeoutMs > 0) element.setTotalDeadline(now + options.totalTimeoutMs)

  def schedule(element: InFlightElement[IN, OUT]): Unit = {
    val next = math.min(element.totalDeadlineMs, element.phaseEndMs)
    if (next != Never) time.schedule(element.timerOrNull, next)
    else cancel(element)
  }
  def cancel(element: InFlightElement[IN, OUT]): Unit = {
    val timer = element.timerOrNull
    if ((timer ne null) && timer.isScheduled) time.cancel(timer): Unit
  }
}
