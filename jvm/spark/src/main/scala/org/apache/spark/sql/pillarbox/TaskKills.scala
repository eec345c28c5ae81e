package org.apache.spark.sql.pillarbox

import org.apache.spark.TaskContext

/** Notices that Spark has killed a task. */
object TaskKills {

  /** @throws org.apache.spark.TaskKilledException if Spark has killed the task */
  def check(context: TaskContext): Unit = context.killTaskIfInterrupted()

  /** Calls `listener` with the reason when Spark kills the task. Any thread. */
  def listen(context: TaskContext)(listener: String => Unit): Unit = Spark42.onKill(context)(listener)
}
