package org.apache.spark.sql.pillarbox

import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.checkpointing
import org.apache.spark.sql.execution.streaming.state.{ReportActiveInstanceResponse, StateStoreProviderId}
import org.apache.spark.util.TaskInterruptListener

/** What came or changed with Spark 4.2. */
object Spark42 {
  type OffsetMetadata = checkpointing.OffsetSeqMetadataBase

  def toUnload(response: ReportActiveInstanceResponse): Seq[StateStoreProviderId] =
    response.providerIdsToUnload

  /** Calls `listener` with the reason when Spark kills the task, from any thread. */
  def onKill(context: TaskContext)(listener: String => Unit): Unit =
    context.addTaskInterruptListener((_, reason) => listener(reason)): Unit

  /** What a task's context has since Spark 4.2, as `task` has it. */
  abstract class TaskContextOf(task: TaskContext) extends TaskContext {
    override def addTaskInterruptListener(listener: TaskInterruptListener): TaskContext = {
      task.addTaskInterruptListener(listener)
      this
    }

    override private[spark] def getTaskFailure: Option[Throwable] = task.getTaskFailure
  }
}
