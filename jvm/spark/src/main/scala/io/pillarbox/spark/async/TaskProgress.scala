package io.pillarbox.spark.async

import io.pillarbox.async.AsyncMetrics
import org.apache.spark.TaskContext
import org.apache.spark.sql.pillarbox.DriverMessages

/** Reports a task's figures to the driver, for the progress that its action was tagged with. */
private[async] final class TaskProgress private (
    progress: String,
    operator: String,
    place: Array[Long],
    metrics: AsyncMetrics
) {

  /** In the order in which `CallProgress` reads them. Mailbox thread only; does not wait. */
  def report(isDone: Boolean): Unit = {
    import metrics._
    val figures = Array(rows, calls, retries, errors, inFlight.toLong, if (isDone) 1L else 0L)
    DriverMessages.report(progress, operator, place ++ figures)
  }
}

private[async] object TaskProgress {

  /** None if the task's action is not watched, as no micro-batch is. */
  def of(task: AsyncIOTaskSpec, context: TaskContext, metrics: AsyncMetrics): Option[TaskProgress] =
    DriverMessages.watchedBy(context).map { progress =>
      val place = Array(context.stageId(), task.site.part, context.numPartitions()).map(_.toLong)
      new TaskProgress(progress, task.spec.name, place, metrics)
    }
}
