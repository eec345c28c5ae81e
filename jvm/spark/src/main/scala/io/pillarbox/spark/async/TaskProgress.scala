package io.pillarbox.spark.async

import io.pillarbox.async.AsyncMetrics
import io.pillarbox.mailbox.{ProcessingTimeService, ProcessingTimer}
import org.apache.spark.TaskContext
import org.apache.spark.sql.pillarbox.DriverMessages

/**
 * Reports a task's figures to the driver, twice a second and at the end, for the progress that its action was
 * tagged with. Mailbox thread only.
 */
private[async] final class TaskProgress private (
    progress: String,
    operator: String,
    place: Array[Long],
    metrics: AsyncMetrics,
    timers: ProcessingTimeService
) extends ProcessingTimer {

  override def onProcessingTime(timestampMs: Long): Unit = {
    report(isDone = false)
    again()
  }

  private def again(): Unit = timers.schedule(this, timers.currentProcessingTime + TaskProgress.PeriodMs)

  /** Reports the last figures. */
  def end(isDone: Boolean): Unit = report(isDone)

  private def report(isDone: Boolean): Unit = {
    val figures = TaskProgress.Figures.map(_(metrics)).toArray
    DriverMessages.report(progress, operator, place ++ figures :+ (if (isDone) 1L else 0L))
  }
}

private[async] object TaskProgress {
  private final val PeriodMs = 500L

  /** In the order in which `CallProgress` reads them, after the place of the task. */
  private val Figures: Seq[AsyncMetrics => Long] =
    Seq(_.rows, _.calls, _.retries, _.errors, _.inFlight.toLong)

  /** Begins to report, if the task's action is watched; a micro-batch's is not. */
  def start(task: AsyncIOTaskSpec, context: TaskContext)(
      metrics: AsyncMetrics,
      timers: ProcessingTimeService
  ): Option[TaskProgress] =
    DriverMessages.watchedBy(context).map { progress =>
      val place = Array(context.stageId().toLong, task.site.part.toLong, context.numPartitions().toLong)
      val reports = new TaskProgress(progress, task.spec.name, place, metrics, timers)
      reports.again()
      reports
    }
}
