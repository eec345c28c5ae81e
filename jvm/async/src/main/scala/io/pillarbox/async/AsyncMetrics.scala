package io.pillarbox.async

import com.codahale.metrics.{Histogram, UniformReservoir}
import io.pillarbox.mailbox.PeriodTimer
import io.pillarbox.metered.usage.{Usage, UsageUnits}

/**
 * The measurements of an async operator. The mailbox thread writes, any thread reads recent values.
 *
 * @param units in which calls report what they use
 */
private[pillarbox] final class AsyncMetrics(val units: UsageUnits = UsageUnits.None) {
  private[async] val capacityWait = new PeriodTimer
  private[async] val limitWait = new PeriodTimer
  private var latencySum = 0L

  /** Calls that were started: what the service sees, a list of the batch form as one. */
  var calls: Long = 0L

  /** The rows that they were for, at each of their attempts. */
  var calledRows: Long = 0L

  /** Calls that repeated one, for some of their rows. */
  var retries: Long = 0L

  /** Deadlines that passed, of attempts and of elements. */
  var timeouts: Long = 0L

  /** Elements that failed for good. */
  var errors: Long = 0L

  /** Calls that asked for the answers of a ticket. */
  var polls: Long = 0L

  /** Elements that were answered from the journal, without a call. */
  var journalHits: Long = 0L

  /** Calls that the service refused, to be asked later. */
  var rateLimited: Long = 0L

  /** Elements that waited for the call of another one, instead of a call of their own. */
  var shared: Long = 0L

  /** The times that calls were stopped since the service was overloaded, and the nanoseconds for which. */
  var breakerOpenings: Long = 0L
  var breakerOpenNanos: Long = 0L

  /** Elements taken in and not answered yet: calls under way, waiting for a permit or for a retry. */
  var inFlight: Int = 0

  /** Elements whose answers are known. */
  var rows: Long = 0L

  /** What calls have reported. Any thread writes. */
  val usage: Usage = new Usage(units)

  /** The largest `inFlight` so far. */
  var inFlightMax: Int = 0

  /** The age of the oldest attempt without an answer, in ms, when it was last looked for; 0 for none. */
  @volatile var oldestCallMs: Long = 0L

  /** Those in flight that had no attempt under way when calls were last looked at. */
  @volatile var waiting: Int = 0

  /** Nanoseconds for which an element had to wait for room. */
  def capacityWaitNanos: Long = capacityWait.totalNanos

  /** Nanoseconds for which a call had to wait for a permit of the limiter. */
  def limitWaitNanos: Long = limitWait.totalNanos

  /** Nanoseconds from the start of an attempt until the mailbox thread took its answer, of a sample. */
  val callLatency: Histogram = new Histogram(new UniformReservoir)

  /** The same of all answers, by buckets. */
  val latencies: LatencyCounts = new LatencyCounts

  /** The mean latency of all answers, in nanoseconds; 0 if there was none. */
  def callLatencyMean: Double =
    if (callLatency.getCount == 0) 0.0 else latencySum.toDouble / callLatency.getCount.toDouble

  private[async] def admitted(): Unit = {
    inFlight += 1
    if (inFlight > inFlightMax) inFlightMax = inFlight
  }

  private[async] def answered(latencyNanos: Long): Unit = {
    latencySum += latencyNanos
    callLatency.update(latencyNanos)
    latencies.add(latencyNanos)
  }

  /** An element was answered by the call of another one. */
  private[async] def withdrawn(): Unit = inFlight -= 1

  private[async] def finished(): Unit = {
    inFlight -= 1
    rows += 1
  }
}
