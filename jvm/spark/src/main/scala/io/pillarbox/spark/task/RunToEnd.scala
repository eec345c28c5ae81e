package io.pillarbox.spark.task

import org.apache.spark.TaskContext

/**
 * Processes a micro-batch to its end also for who takes some rows only, as `isEmpty()` in foreachBatch does:
 * the next micro-batch goes on from its state.
 */
private[pillarbox] object RunToEnd {

  /**
   * At the end of the task, what is registered last first: runs `toEnd`, or `abort` if the task has failed or
   * was killed.
   */
  def of(context: TaskContext)(toEnd: => Unit)(abort: => Unit): Unit =
    context.addTaskCompletionListener[Unit] { ended =>
      if (ended.isFailed() || ended.isInterrupted()) abort else toEnd
    }: Unit
}
