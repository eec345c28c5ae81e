package io.pillarbox.spark.async

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/** The operator's metrics in Spark's UI. */
private[pillarbox] object AsyncIOMetrics {
  val OutputRows = "numOutputRows"
  val Calls = "calls"
  val JournalHits = "numJournalHits"
  val Polls = "polls"
  val InFlight = "inFlight"
  val InFlightMax = "inFlightMax"
  val Waiting = "waiting"
  val OldestCall = "oldestCall"
  val Retries = "retries"
  val Timeouts = "timeouts"
  val Errors = "errors"
  val RateLimited = "rateLimited"
  val Shared = "shared"
  val LimitWait = "limitWait"
  val ConcurrencyNow = "maxConcurrencyNow"
  val CapacityWait = "capacityWait"
  val BreakerOpenings = "breakerOpenings"
  val BreakerOpenTime = "breakerOpenTime"
  val LatencyMean = "latencyMean"
  val LatencyP99 = "latencyP99"
  val MailboxLatency = "mailboxLatency"

  /** The names of counts in a streaming query's progress, and the metrics that they are. */
  val InProgress: Seq[(String, String)] = Seq(
    OutputRows -> OutputRows,
    "numCalls" -> Calls,
    "numRetries" -> Retries,
    "numTimeouts" -> Timeouts,
    "numErrors" -> Errors,
    JournalHits -> JournalHits,
    "numRateLimited" -> RateLimited,
    "numShared" -> Shared,
    "limitWaitMs" -> LimitWait
  )

  /** The name of the metric that has the sum of what calls have used of a unit, rounded to whole units. */
  def usage(unit: String): String = s"usage.$unit"

  def create(sc: SparkContext, units: Seq[String]): Map[String, SQLMetric] =
    createCounts(sc) ++ units.map(unit => usage(unit) -> SQLMetrics.createMetric(sc, s"$unit used"))

  private def createCounts(sc: SparkContext): Map[String, SQLMetric] = Map(
    OutputRows -> SQLMetrics.createMetric(sc, "number of output rows"),
    Calls -> SQLMetrics.createMetric(sc, "calls"),
    JournalHits -> SQLMetrics.createMetric(sc, "answers from the journal"),
    Polls -> SQLMetrics.createMetric(sc, "polls of tickets"),
    InFlight -> SQLMetrics.createMetric(sc, "calls in flight"),
    InFlightMax -> SQLMetrics.createAverageMetric(sc, "calls in flight, most in a task"),
    Waiting -> SQLMetrics.createMetric(sc, "calls waiting"),
    OldestCall -> SQLMetrics.createAverageMetric(sc, "oldest call in flight (ms)"),
    Retries -> SQLMetrics.createMetric(sc, "retries"),
    Timeouts -> SQLMetrics.createMetric(sc, "timeouts"),
    Errors -> SQLMetrics.createMetric(sc, "errors"),
    RateLimited -> SQLMetrics.createMetric(sc, "rate-limited"),
    Shared -> SQLMetrics.createMetric(sc, "shared"),
    LimitWait -> SQLMetrics.createTimingMetric(sc, "time waiting for limits"),
    ConcurrencyNow -> SQLMetrics.createAverageMetric(sc, "calls allowed at a time, share of a task"),
    CapacityWait -> SQLMetrics.createNanoTimingMetric(sc, "time waiting for capacity"),
    BreakerOpenings -> SQLMetrics.createMetric(sc, "times that a breaker stopped calls"),
    BreakerOpenTime -> SQLMetrics
      .createNanoTimingMetric(sc, "time that a breaker stopped calls, in executors"),
    LatencyMean -> SQLMetrics.createAverageMetric(sc, "call latency mean (ms)"),
    LatencyP99 -> SQLMetrics.createAverageMetric(sc, "call latency p99 (ms)"),
    MailboxLatency -> SQLMetrics.createAverageMetric(sc, "mailbox latency p99 (ms)")
  )
}
