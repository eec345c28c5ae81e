package org.apache.spark.sql.pillarbox

import org.apache.spark.util.UninterruptibleThread

/** Tells the threads of Spark's tasks from others. Written for Spark 4.2. */
object TaskThreads {

  /**
   * Whether the calling thread runs a task, and so also what is to be done at the task's end; a thread that
   * an operator of Spark has started for itself does not.
   */
  def isTaskThread: Boolean = Thread.currentThread().isInstanceOf[UninterruptibleThread]
}
