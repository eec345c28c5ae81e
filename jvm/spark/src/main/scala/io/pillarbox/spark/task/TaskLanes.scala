package io.pillarbox.spark.task

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.TaskContext

/** The lanes of one Spark task, by the threads that pull them. Any thread. */
private[pillarbox] final class TaskLanes private {
  private val groups = new ConcurrentHashMap[Thread, LaneGroup]
  private val operators = new AtomicInteger

  /** Spark makes the upstream iterator first, so a later operator is downstream. */
  private[task] def nextPriority(): Int = operators.getAndIncrement()

  private[task] def groupOfCurrentThread(): LaneGroup =
    groups.computeIfAbsent(Thread.currentThread(), thread => new LaneGroup(thread))
}

private[pillarbox] object TaskLanes {
  private val byTask = new ConcurrentHashMap[Long, TaskLanes]
  private final val EndTimeoutMs = 4000L

  /** Makes a lane of `context`'s task. */
  def newLane(context: TaskContext, endTimeoutMs: Long = EndTimeoutMs): TaskLane = {
    val id = context.taskAttemptId()
    val fresh = new TaskLanes
    val known = byTask.putIfAbsent(id, fresh)
    if (known == null) context.addTaskCompletionListener[Unit](_ => byTask.remove(id, fresh): Unit)
    new TaskLane(if (known == null) fresh else known, context, endTimeoutMs)
  }
}
