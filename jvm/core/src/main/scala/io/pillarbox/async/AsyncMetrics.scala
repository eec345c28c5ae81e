package io.pillarbox.async

import io.pillarbox.mailbox.{LogHistogram, PeriodTimer}

/** What an async operator measures. Written by the mailbox thread; any thread may read, and gets recent values. */
final class AsyncMetrics {
  private[async] var callCount = 0L
  private[async] var retryCount = 0L
  private[async] var timeoutCount = 0L
  private[async] var errorCount = 0L
  private[async] var inFlightCount = 0
  private[this] var answerCount = 0L
  private[async] var inFlightLargest = 0
  private[async] val capacityWait = new PeriodTimer
  private[async] val latency = new LogHistogram

  /** Attempts started. */
  def calls: Long = callCount

  /** Attempts that were repetitions. */
  def retries: Long = retryCount

  /** Deadlines that passed, of attempts and of elements. */
  def timeouts: Long = timeoutCount

  /** Elements that failed for good. */
  def errors: Long = errorCount

  /** Elements taken in whose answer is not known yet: calls under way, waiting for a permit or for a retry. */
  def inFlight: Int = inFlightCount

  /** The largest `inFlight` there was. */
  def inFlightMax: Int = inFlightLargest

  /** Nanoseconds for which an element had to wait for room. */
  def capacityWaitNanos: Long = capacityWait.totalNanos

  /**
   * Nanoseconds from the start of an attempt until the mailbox thread had its answer: of the first thousand answers,
   * then of every sixteenth.
   */
  def callLatency: LogHistogram = latency

  private[async] def admitted(): Unit = {
    inFlightCount += 1
    if (inFlightCount > inFlightLargest) inFlightLargest = inFlightCount
  }

  private[async] def samplesLatency(): Boolean = {
    answerCount += 1
    answerCount <= AsyncMetrics.AllUpTo || (answerCount & (AsyncMetrics.ThenEvery - 1)) == 0
  }

  private[async] def finished(): Unit = inFlightCount -= 1
}

private object AsyncMetrics {
  final val AllUpTo = 1000L
  final val ThenEvery = 16L
}
