package org.apache.spark.sql.pillarbox

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.api.python.{LocalPythonWorkerHandle, PythonWorkerHandle}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.runtime.RealTimeModeAllowlist
import org.apache.spark.util.{PostStatusUpdateListener, TaskCompletionListener}

/** The classes and methods that came or changed with Spark 4.3. */
object Spark43 {

  /** The process id of a Python worker, if it is known. */
  def pidOf(handle: PythonWorkerHandle): Option[Long] =
    Option(handle).collect { case local: LocalPythonWorkerHandle => local.pid }

  /** A logical node with state, of which queries in real-time mode are to know. */
  trait StatefulNode extends LogicalPlan {
    override final def isStateful: Boolean = isStreaming
  }

  final val runsStateInRealTime = true

  /**
   * Throws Spark's error if an operator of a micro-batch is neither in its list for real-time mode nor ours,
   * or the query's sink is not in its list.
   */
  def checkRealTimeQuery(context: SparkContext)(isOurs: SparkPlan => Boolean): Unit =
    MicroBatches.running(context).foreach { batch =>
      MicroBatches
        .active(batch.sparkSession, batch.queryId.toString)
        .foreach(query => RealTimeModeAllowlist.checkAllowedSink(query.sink, throwException = true))
      val others = batch.executedPlan.transformUp { case node if isOurs(node) => node.children.head }
      RealTimeModeAllowlist.checkAllowedPhysicalOperator(others, throwException = true)
    }

  /** Delegates the methods that a task's context has since Spark 4.3 to `task`. */
  abstract class TaskContextOf(task: TaskContext) extends Spark42.TaskContextOf(task) {
    override private[spark] def addTaskPreCompletionListener(
        listener: TaskCompletionListener
    ): TaskContext = {
      task.addTaskPreCompletionListener(listener)
      this
    }

    override private[spark] def addPostStatusUpdateListener(
        listener: PostStatusUpdateListener
    ): TaskContext = {
      task.addPostStatusUpdateListener(listener)
      this
    }

    override private[spark] def invokePostStatusUpdateListeners(): Unit =
      task.invokePostStatusUpdateListeners()
    override def cpuAmount(): BigDecimal = task.cpuAmount()
  }
}
