package org.apache.spark.sql.pillarbox

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.checkpointing
import org.apache.spark.sql.execution.streaming.state.{ReportActiveInstanceResponse, StateStoreProviderId}
import org.apache.spark.util.TaskInterruptListener

/** The classes and methods that came or changed with Spark 4.2. */
object Spark42 {
  type OffsetMetadata = checkpointing.OffsetSeqMetadataBase

  def toUnload(response: ReportActiveInstanceResponse): Seq[StateStoreProviderId] =
    response.providerIdsToUnload

  /** Calls `listener` with the reason when Spark kills the task. Any thread. */
  def onKill(context: TaskContext)(listener: String => Unit): Unit =
    context.addTaskInterruptListener((_, reason) => listener(reason)): Unit

  /** Delegates the methods that a task's context has since Spark 4.2 to `task`. */
  abstract class TaskContextOf(task: TaskContext) extends TaskContext {
    override def addTaskInterruptListener(listener: TaskInterruptListener): TaskContext = {
      task.addTaskInterruptListener(listener)
      this
    }

    override private[spark] def getTaskFailure: Option[Throwable] = task.getTaskFailure
  }
}
