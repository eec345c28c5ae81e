package io.pillarbox.spark.async

import io.pillarbox.async.AsyncMetrics
import io.pillarbox.mailbox.MailboxMetrics
import io.pillarbox.spark.async.AsyncIOMetrics._
import org.apache.spark.sql.execution.metric.SQLMetric

/** The figures of an operator's calls. */
private[async] final case class CallCounts(
    calls: Long,
    retries: Long,
    timeouts: Long,
    errors: Long,
    journalHits: Long,
    capacityWaitNanos: Long
)

private[async] object CallCounts {
  val None: CallCounts = CallCounts(0, 0, 0, 0, 0, 0)

  def of(calls: AsyncMetrics): CallCounts =
    CallCounts(
      calls.calls,
      calls.retries,
      calls.timeouts,
      calls.errors,
      calls.journalHits,
      calls.capacityWaitNanos
    )
}

/** Publishes a task's figures in Spark's UI. */
private[async] object TaskMetrics {
  private val NanosPerMs = 1e6

  /** Adds what has come since `before`, and returns the present figures. */
  def publish(
      sql: Map[String, SQLMetric],
      calls: AsyncMetrics,
      mailbox: MailboxMetrics,
      before: CallCounts = CallCounts.None
  ): CallCounts = {
    val now = CallCounts.of(calls)
    sql(Calls) += now.calls - before.calls
    sql(Retries) += now.retries - before.retries
    sql(Timeouts) += now.timeouts - before.timeouts
    sql(Errors) += now.errors - before.errors
    sql(JournalHits) += now.journalHits - before.journalHits
    sql(CapacityWait) += now.capacityWaitNanos - before.capacityWaitNanos
    sql(InFlightMax).set(calls.inFlightMax.toDouble)
    sql(LatencyMean).set(calls.callLatencyMean / NanosPerMs)
    sql(LatencyP99).set(calls.callLatency.getSnapshot.get99thPercentile / NanosPerMs)
    sql(MailboxLatency).set(mailbox.mailboxLatency.getSnapshot.get99thPercentile / NanosPerMs)
    now
  }
}
