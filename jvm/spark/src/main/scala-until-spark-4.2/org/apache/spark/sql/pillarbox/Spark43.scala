package org.apache.spark.sql.pillarbox

import org.apache.spark.TaskContext

/** The classes and methods that came or changed with Spark 4.3, for older ones. */
object Spark43 {

  /** The process id of a Python worker. */
  def pidOf(handle: ProcessHandle): Option[Long] = Some(handle.pid())

  /** Delegates the methods that only older contexts have to `task`. */
  abstract class TaskContextOf(task: TaskContext) extends Spark42.TaskContextOf(task) {
    override def cpus(): Int = task.cpus()
  }
}
