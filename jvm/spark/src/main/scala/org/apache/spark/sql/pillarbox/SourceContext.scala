package org.apache.spark.sql.pillarbox

import java.io.Closeable
import java.util.{ArrayList, Map => JMap, Properties}

import org.apache.spark.TaskContext
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.metrics.source.Source
import org.apache.spark.resource.ResourceInformation
import org.apache.spark.shuffle.FetchFailedException
import org.apache.spark.util.{AccumulatorV2, TaskCompletionListener, TaskFailureListener}

/**
 * The context of a task for the part of its plan that another thread reads.
 *
 * Completion and failure listeners of that part wait until the reading thread has ended: they free what the
 * thread may be reading from, and Spark calls listeners added last first. Everything else is the task's own.
 * Any thread. Written for Spark 4.2.
 */
final class SourceContext(task: TaskContext) extends Spark43.TaskContextOf(task) {
  private val completions = new ArrayList[TaskCompletionListener]
  private val failures = new ArrayList[TaskFailureListener]
  private var isReading = false

  /** Called before a thread begins to read. */
  def readingStarts(): Unit = synchronized { isReading = true }

  /** Called when it has ended: gives the listeners to the task. */
  def readingEnds(): Unit = {
    val isFirst = synchronized {
      val was = isReading
      isReading = false
      was
    }
    if (isFirst) {
      completions.forEach(listener => task.addTaskCompletionListener(listener): Unit)
      failures.forEach(listener => task.addTaskFailureListener(listener): Unit)
    }
  }

  override def addTaskCompletionListener(listener: TaskCompletionListener): TaskContext = {
    if (!synchronized(isReading && completions.add(listener))) task.addTaskCompletionListener(listener)
    this
  }

  override def addTaskFailureListener(listener: TaskFailureListener): TaskContext = {
    if (!synchronized(isReading && failures.add(listener))) task.addTaskFailureListener(listener)
    this
  }

  override def isCompleted(): Boolean = task.isCompleted()
  override def isFailed(): Boolean = task.isFailed()
  override def isInterrupted(): Boolean = task.isInterrupted()
  override def stageId(): Int = task.stageId()
  override def stageAttemptNumber(): Int = task.stageAttemptNumber()
  override def partitionId(): Int = task.partitionId()
  override def numPartitions(): Int = task.numPartitions()
  override def attemptNumber(): Int = task.attemptNumber()
  override def taskAttemptId(): Long = task.taskAttemptId()
  override def getLocalProperty(key: String): String = task.getLocalProperty(key)
  override def resources(): Map[String, ResourceInformation] = task.resources()
  override def resourcesJMap(): JMap[String, ResourceInformation] = task.resourcesJMap()
  override def taskMetrics(): TaskMetrics = task.taskMetrics()
  override def getMetricsSources(sourceName: String): Seq[Source] = task.getMetricsSources(sourceName)
  override private[spark] def killTaskIfInterrupted(): Unit = task.killTaskIfInterrupted()
  override private[spark] def getKillReason(): Option[String] = task.getKillReason()
  override private[spark] def taskMemoryManager(): TaskMemoryManager = task.taskMemoryManager()
  override private[spark] def registerAccumulator(a: AccumulatorV2[_, _]): Unit = task.registerAccumulator(a)
  override private[spark] def setFetchFailed(e: FetchFailedException): Unit = task.setFetchFailed(e)
  override private[spark] def markInterrupted(reason: String): Unit = task.markInterrupted(reason)
  override private[spark] def markTaskFailed(error: Throwable): Unit = task.markTaskFailed(error)
  override private[spark] def markTaskCompleted(error: Option[Throwable]): Unit =
    task.markTaskCompleted(error)
  override private[spark] def fetchFailed: Option[FetchFailedException] = task.fetchFailed
  override private[spark] def getLocalProperties: Properties = task.getLocalProperties
  override private[spark] def interruptible(): Boolean = task.interruptible()
  override private[spark] def pendingInterrupt(thread: Option[Thread], reason: String): Unit =
    task.pendingInterrupt(thread, reason)
  override private[spark] def createResourceUninterruptibly[T <: Closeable](builder: => T): T =
    task.createResourceUninterruptibly(builder)
}
