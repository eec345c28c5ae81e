package org.apache.spark.sql.pillarbox

import scala.annotation.unused

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.{SparkContext, TaskContext}

/** The classes and methods that came or changed with Spark 4.3, for older ones. */
object Spark43 {

  /** The process id of a Python worker. */
  def pidOf(handle: ProcessHandle): Option[Long] = Some(handle.pid())

  /** A logical node with state. */
  trait StatefulNode

  final val runsStateInRealTime = false

  /** Never called, as what would call it is refused. */
  def checkRealTimeQuery(@unused context: SparkContext)(@unused isOurs: SparkPlan => Boolean): Unit = ()

  /** Delegates the methods that only older contexts have to `task`. */
  abstract class TaskContextOf(task: TaskContext) extends Spark42.TaskContextOf(task) {
    override def cpus(): Int = task.cpus()
  }
}
