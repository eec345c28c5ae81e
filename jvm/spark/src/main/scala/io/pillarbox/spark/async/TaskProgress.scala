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

  /** Reports what there is so far. Mailbox thread only; does not wait. */
  def report(): Unit = send(metrics.inFlight, isDone = false)

  /** Reports for the last time: nothing is in flight any more, though rows may be left. */
  def end(isDone: Boolean): Unit = send(inFlight = 0, isDone)

  private def send(inFlight: Int, isDone: Boolean): Unit =
    DriverMessages.report(progress, operator, CallProgress.figures(place, metrics, inFlight, isDone))
}

private[async] object TaskProgress {

  /** None if the task's action is not watched, as no micro-batch is. */
  def of(task: AsyncIOTaskSpec, context: TaskContext, metrics: AsyncMetrics): Option[TaskProgress] =
    DriverMessages.watchedBy(context).map { progress =>
      val node = task.metrics(AsyncIOMetrics.OutputRows).id
      val place = CallProgress.place(context.stageId(), node, task.site.part, context.numPartitions())
      new TaskProgress(progress, task.spec.name, place, metrics)
    }
}
