package io.pillarbox.spark.async

import java.util.UUID

import io.pillarbox.async.AsyncMetrics
import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.pillarbox.DriverMessages

/**
 * Tells the driver what the calls of a task, or of a slot, have cost so far, and how long they took: also
 * those of a task that fails, since they were made. Any thread; does not wait.
 *
 * @param run the action or streaming query that they belong to
 */
private[async] final class TaskUsage(run: String, spec: AsyncIOSpec, metrics: AsyncMetrics) {

  /** The id of one of the metrics of the node in the plan, by which the tab of Spark's UI finds it. */
  @volatile private var node: Long = -1L

  private val source = UUID.randomUUID.toString
  private var seconds = 0
  private var ended = false

  /** Tells the metrics of the node in the present plan, one for each micro-batch. */
  def isOf(sql: Map[String, SQLMetric]): Unit = sql.get(AsyncIOMetrics.OutputRows).foreach(m => node = m.id)

  /** Runs each second: reports at first, and then every five seconds. */
  def tick(): Unit = {
    if (seconds % TaskUsage.PeriodSeconds == 0) report()
    seconds += 1
  }

  def report(): Unit = send(isDone = false)

  /** Reports for the last time. */
  def end(): Unit = send(isDone = true)

  private def send(isDone: Boolean): Unit = synchronized {
    if (!ended) tell(isDone)
    ended ||= isDone
  }

  private def tell(isDone: Boolean): Unit = {
    // Of one moment: a unit that is reported meanwhile would shift the others.
    val usage = metrics.usage.amounts
    DriverMessages.usage(
      Array(run, spec.operatorId, spec.name, spec.operator, source),
      UsageRegistry.amounts(metrics, usage),
      usage.map(_._1).toArray,
      isDone
    )
    val latencies = metrics.latencies.take()
    if (latencies.nonEmpty) DriverMessages.latencies(node, latencies)
  }
}

private[async] object TaskUsage {

  private final val PeriodSeconds = 5

  /** Keeps nothing of the context. */
  def of(
      spec: AsyncIOSpec,
      context: TaskContext,
      metrics: AsyncMetrics,
      sql: Map[String, SQLMetric]
  ): TaskUsage = {
    val made = new TaskUsage(DriverMessages.runOf(context), spec, metrics)
    made.isOf(sql)
    made
  }
}
