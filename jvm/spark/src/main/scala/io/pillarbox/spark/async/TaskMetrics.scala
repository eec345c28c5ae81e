package io.pillarbox.spark.async

import io.pillarbox.async.AsyncMetrics
import io.pillarbox.mailbox.MailboxMetrics
import io.pillarbox.spark.async.AsyncIOMetrics._
import org.apache.spark.sql.execution.metric.SQLMetric

/** Hands a finished task's figures to Spark's UI. */
private object TaskMetrics {
  private val NanosPerMs = 1e6

  def publish(sql: Map[String, SQLMetric], calls: AsyncMetrics, mailbox: MailboxMetrics): Unit = {
    sql(Calls) += calls.calls
    sql(Retries) += calls.retries
    sql(Timeouts) += calls.timeouts
    sql(Errors) += calls.errors
    sql(CapacityWait) += calls.capacityWaitNanos
    sql(InFlightMax).set(calls.inFlightMax.toDouble)
    sql(LatencyMean).set(calls.callLatencyMean / NanosPerMs)
    sql(LatencyP99).set(calls.callLatency.getSnapshot.get99thPercentile / NanosPerMs)
    sql(MailboxLatency).set(mailbox.mailboxLatency.getSnapshot.get99thPercentile / NanosPerMs)
  }
}
