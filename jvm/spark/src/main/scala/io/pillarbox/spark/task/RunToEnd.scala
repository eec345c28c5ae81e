package io.pillarbox.spark.task

import org.apache.spark.TaskContext

/**
 * Processes a micro-batch to its end even if the query takes only some rows, as `isEmpty()` in foreachBatch
 * does, or none, as a join with an empty table does: the next micro-batch goes on from its state.
 */
private[pillarbox] object RunToEnd {

  /** Runs `toEnd` when the task ends, `abort` if it failed or was killed. Registered last, it runs first. */
  def of(context: TaskContext)(toEnd: => Unit)(abort: => Unit): Unit =
    context.addTaskCompletionListener[Unit] { ended =>
      if (ended.isFailed() || ended.isInterrupted()) abort else toEnd
    }: Unit
}
