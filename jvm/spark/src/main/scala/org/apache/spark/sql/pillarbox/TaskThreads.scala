package org.apache.spark.sql.pillarbox

import org.apache.spark.TaskContext
import org.apache.spark.util.UninterruptibleThread

/** Tells Spark's task threads from others, and makes threads that read for a task. Written for Spark 4.2. */
object TaskThreads {

  /** True if the calling thread runs a task and its completion listeners, and is not an operator's own. */
  def isTaskThread: Boolean = Thread.currentThread() match {
    case _: ReadingThread => false
    case thread => thread.isInstanceOf[UninterruptibleThread]
  }

  /**
   * Makes a thread, not started, on which the plan below an operator finds the same as on the task's own: the
   * task's context, and from there its configuration; the current file, the class loader and the user, which
   * a thread inherits from its maker.
   */
  def reading(name: String, context: TaskContext)(body: Runnable): Thread =
    new ReadingThread(name, context, body)

  /** Uninterruptible as the thread of a task, because a Kafka consumer that is interrupted may hang. */
  private final class ReadingThread(name: String, context: TaskContext, body: Runnable)
      extends UninterruptibleThread(name) {
    override def run(): Unit = {
      TaskContext.setTaskContext(context)
      try body.run()
      finally TaskContext.unset()
    }
  }
}
