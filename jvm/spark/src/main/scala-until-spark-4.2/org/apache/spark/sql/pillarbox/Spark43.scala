package org.apache.spark.sql.pillarbox

import org.apache.spark.TaskContext

/** What came or changed with Spark 4.3, as older ones have it. */
object Spark43 {

  /** The process id of a Python worker, where it is known. */
  def pidOf(handle: ProcessHandle): Option[Long] = Some(handle.pid())

  /** A task's context that is in all things `task`. */
  abstract class TaskContextOf(task: TaskContext) extends Spark42.TaskContextOf(task) {
    override def cpus(): Int = task.cpus()
  }
}
