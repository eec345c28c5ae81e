package io.pillarbox.spark.async

import java.util.function.LongSupplier

import io.pillarbox.async.AsyncMetrics
import io.pillarbox.mailbox.MailboxMetrics
import io.pillarbox.spark.async.AsyncIOMetrics._
import io.pillarbox.spark.task.OperatorFigure
import org.apache.spark.sql.execution.metric.SQLMetric

/** Publishes a task's figures in Spark's UI. */
private[async] object TaskMetrics {
  private val NanosPerMs = 1e6

  private val Counts: Seq[(String, AsyncMetrics => Long)] = Seq(
    Calls -> (_.calls),
    Retries -> (_.retries),
    Timeouts -> (_.timeouts),
    Errors -> (_.errors),
    RateLimited -> (_.rateLimited),
    Shared -> (_.shared),
    LimitWait -> (_.limitWaitNanos / 1000000L),
    JournalHits -> (_.journalHits),
    Polls -> (_.polls),
    CapacityWait -> (_.capacityWaitNanos),
    BreakerOpenings -> (_.breakerOpenings),
    BreakerOpenTime -> (_.breakerOpenNanos)
  )

  /**
   * Shows a task's figures in Spark's metrics system until the result is closed; the counts stay there. Those of
   * a keyed function's rows are its operator's.
   */
  def show(spec: AsyncIOSpec, calls: AsyncMetrics): AutoCloseable = {
    val counts = Seq[(String, LongSupplier)](
      "rows" -> (() => calls.rows),
      "calls" -> (() => calls.calls),
      "retries" -> (() => calls.retries),
      "timeouts" -> (() => calls.timeouts),
      "errors" -> (() => calls.errors),
      "rateLimited" -> (() => calls.rateLimited),
      "shared" -> (() => calls.shared),
      "journalHits" -> (() => calls.journalHits)
    )
    OperatorFigure.follow(
      spec.name,
      if (spec.isKeyedFunction) counts.tail else counts,
      Seq(
        "callsInFlight" -> (() => calls.inFlight.toLong),
        "callsWaiting" -> (() => calls.waiting.toLong)
      ),
      Seq("oldestCallMs" -> (() => calls.oldestCallMs))
    )
  }

  /** Adds what has come since the counts `before`, by their names, and returns the present counts. */
  def publish(
      sql: Map[String, SQLMetric],
      calls: AsyncMetrics,
      mailbox: MailboxMetrics,
      before: Map[String, Long] = Map.empty
  ): Map[String, Long] = {
    val used = calls.units.names.zipWithIndex.map { case (unit, i) => usage(unit) -> calls.usage(i).round }
    val now = (Counts.map { case (name, of) => name -> of(calls) } ++ used).toMap
    now.foreach { case (name, count) => sql(name) += count - before.getOrElse(name, 0L) }
    sql.get(InFlight).foreach(_.set(calls.inFlight.toLong))
    sql(Waiting).set(calls.waiting.toLong)
    sql(OldestCall).set(calls.oldestCallMs.toDouble)
    sql(InFlightMax).set(calls.inFlightMax.toDouble)
    sql(LatencyMean).set(calls.callLatencyMean / NanosPerMs)
    sql(LatencyP99).set(calls.callLatency.getSnapshot.get99thPercentile / NanosPerMs)
    sql(MailboxLatency).set(mailbox.mailboxLatency.getSnapshot.get99thPercentile / NanosPerMs)
    now
  }
}
