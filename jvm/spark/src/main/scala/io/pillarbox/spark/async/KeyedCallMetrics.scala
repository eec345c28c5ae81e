package io.pillarbox.spark.async

import io.pillarbox.async.AsyncMetrics
import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/** The metrics of calls that a keyed operator's workers make, by the names that they have in progress. */
private[pillarbox] object KeyedCallMetrics {

  private val Counts: Seq[(String, String, AsyncMetrics => Long)] = Seq(
    ("numCalls", "calls", _.calls),
    ("numRetries", "retries", _.retries),
    ("numTimeouts", "timeouts", _.timeouts),
    ("numErrors", "errors", _.errors),
    ("numRateLimited", "rate-limited", _.rateLimited),
    ("limitWaitMs", "time waiting for limits (ms)", _.limitWaitNanos / NanosPerMs),
    ("numBreakerOpenings", "times that a breaker stopped calls", _.breakerOpenings),
    ("breakerOpenMs", "time that a breaker stopped calls (ms)", _.breakerOpenNanos / NanosPerMs)
  )
  private final val NanosPerMs = 1000000L

  def descriptions(units: Seq[String]): Seq[(String, String)] =
    Counts.map { case (name, text, _) => name -> text } ++
      units.map(unit => AsyncIOMetrics.usage(unit) -> s"$unit used")

  /** On the driver. */
  def create(sc: SparkContext, units: Seq[String]): Map[String, SQLMetric] =
    descriptions(units).map { case (name, text) => name -> SQLMetrics.createMetric(sc, text) }.toMap

  /** Adds what has come since the counts `before`, by their names, and returns the present counts. */
  def publish(
      sql: Map[String, SQLMetric],
      calls: AsyncMetrics,
      before: Map[String, Long]
  ): Map[String, Long] = {
    val used = calls.units.names.zipWithIndex.map { case (unit, i) =>
      AsyncIOMetrics.usage(unit) -> calls.usage(i).round
    }
    val now = (Counts.map { case (name, _, of) => name -> of(calls) } ++ used).toMap
    now.foreach { case (name, count) => sql.get(name).foreach(_ += count - before.getOrElse(name, 0L)) }
    now
  }
}
