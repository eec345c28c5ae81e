package io.pillarbox.spark.keyed

import io.pillarbox.spark.state.HotKeys
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.pillarbox.DriverMessages

/** Tells the driver now and then which key has most of a task's rows. Mailbox thread only. */
private final class KeyWatch(
    task: KeyedTaskSpec,
    keys: HotKeys,
    keyOf: UnsafeRow => UnsafeRow,
    context: TaskContext
) {
  import KeyWatch._

  private val metric = task.metrics("numOutputRows").id
  private val partition = context.partitionId()
  private val startNanos = System.nanoTime

  /** Takes note of a row, which must be there until this returns. */
  def take(row: UnsafeRow): Unit = if (keys.isNext) {
    keys.add(keyOf(row))
    if (System.nanoTime - startNanos >= PeriodNanos && keys.isReportDue(PeriodNanos)) report()
  }

  def end(): Unit =
    if (keys.rows > 0 && (task.isBatch || keys.isReportDue(BetweenTasksNanos))) report()

  private def report(): Unit = keys.hottest.foreach { case (key, rows) =>
    DriverMessages.hottest(metric, partition, textOf(key), rows, keys.rows)
  }

  private def textOf(key: UnsafeRow): String = {
    val text = task.text.key(key, task.keySchema)
    if (text.codePointCount(0, text.length) <= LongestKey) text
    else text.substring(0, text.offsetByCodePoints(0, LongestKey - 1)) + "…"
  }
}

private object KeyWatch {
  private final val LongestKey = 40

  /** Between two reports of a task that runs, and of tasks of a partition at their ends. */
  private final val PeriodNanos = 5L * 1000 * 1000 * 1000
  private final val BetweenTasksNanos = PeriodNanos / 5
}
