package org.apache.spark.sql.pillarbox

import org.apache.spark.TaskContext
import org.apache.spark.util.UninterruptibleThread

/**
 * Tells the threads of Spark's tasks from others, and makes those that read for a task. Written for Spark
 * 4.2.
 */
object TaskThreads {

  /**
   * Whether the calling thread runs a task, and so also what is to be done at the task's end; a thread that
   * an operator has started for itself does not.
   */
  def isTaskThread: Boolean = Thread.currentThread() match {
    case _: ReadingThread => false
    case thread => thread.isInstanceOf[UninterruptibleThread]
  }

  /**
   * A thread, not started, on which the plan below an operator finds what it finds on the task's own: the
   * task's context, and from there its configuration; the file that is being read, the class loader and the
   * user, which a thread has from its maker.
   */
  def reading(name: String, context: TaskContext)(body: Runnable): Thread =
    new ReadingThread(name, context, body)

  /** As the thread of a task is, because a Kafka consumer that is interrupted may hang. */
  private final class ReadingThread(name: String, context: TaskContext, body: Runnable)
      extends UninterruptibleThread(name) {
    override def run(): Unit = {
      TaskContext.setTaskContext(context)
      try body.run()
      finally TaskContext.unset()
    }
  }
}
