package io.pillarbox.async

import com.codahale.metrics.{Histogram, UniformReservoir}
import io.pillarbox.mailbox.PeriodTimer

/** The measurements of an async operator. The mailbox thread writes; any thread reads recent values. */
private[pillarbox] final class AsyncMetrics {
  private[async] var callCount = 0L
  private[async] var retryCount = 0L
  private[async] var timeoutCount = 0L
  private[async] var errorCount = 0L
  private[async] var journalHitCount = 0L
  private[async] var inFlightCount = 0
  private[async] var inFlightLargest = 0
  private[async] val capacityWait = new PeriodTimer
  private var latencySum = 0L

  /** Attempts started. */
  def calls: Long = callCount

  /** Attempts that were repetitions. */
  def retries: Long = retryCount

  /** Deadlines that passed, of attempts and of elements. */
  def timeouts: Long = timeoutCount

  /** Elements that failed for good. */
  def errors: Long = errorCount

  /** Elements that were answered from the journal, without a call. */
  def journalHits: Long = journalHitCount

  /** Elements taken in and not answered yet: calls under way, waiting for a permit or for a retry. */
  def inFlight: Int = inFlightCount

  /** The largest `inFlight` so far. */
  def inFlightMax: Int = inFlightLargest

  /** Nanoseconds for which an element had to wait for room. */
  def capacityWaitNanos: Long = capacityWait.totalNanos

  /** Nanoseconds from the start of an attempt until the mailbox thread took its answer, of a sample. */
  val callLatency: Histogram = new Histogram(new UniformReservoir)

  /** The mean latency of all answers, in nanoseconds; 0 if there was none. */
  def callLatencyMean: Double =
    if (callLatency.getCount == 0) 0.0 else latencySum.toDouble / callLatency.getCount.toDouble

  private[async] def admitted(): Unit = {
    inFlightCount += 1
    if (inFlightCount > inFlightLargest) inFlightLargest = inFlightCount
  }

  private[async] def answered(latencyNanos: Long): Unit = {
    latencySum += latencyNanos
    callLatency.update(latencyNanos)
  }

  private[async] def finished(): Unit = inFlightCount -= 1
}
