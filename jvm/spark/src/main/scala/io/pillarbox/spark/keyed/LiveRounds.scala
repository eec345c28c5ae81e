package io.pillarbox.spark.keyed

import io.pillarbox.api.TimeDomain
import io.pillarbox.mailbox.{ProcessingTimer, SystemProcessingTimeService}
import io.pillarbox.operator.StreamOrder
import io.pillarbox.spark.state.PartitionState
import io.pillarbox.spark.task.{MailboxStep, OperatorInput, TaskLane}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Cuts a long micro-batch of real-time mode into rounds of its order: the rows that have come, then the
 * timers that are due by the machine's clock. Between rounds the operator's action rests until a row comes or
 * the next processing-time timer is due. Mailbox thread only.
 *
 * The watermark is that of the micro-batch in all rounds but the rows of the first one, so event-time timers
 * fire at the beginning, and at once if they are set for a time behind it.
 */
private final class LiveRounds(
    task: KeyedTaskSpec,
    input: OperatorInput,
    rows: InputRows,
    state: PartitionState,
    order: StreamOrder[UnsafeRow, UnsafeRow],
    action: MailboxStep,
    lane: TaskLane
) {
  private val time = new SystemProcessingTimeService(action.processor.mailboxExecutor(lane.nextPriority()))
  private val nextTimer = new ProcessingTimer {
    override def onProcessingTime(timestampMs: Long): Unit = wake()
  }
  private var isInRound = false

  /** True if rows have come, or a timer is due, since the round began. */
  private var hasNews = false

  input.onProgress(() => wake())

  private def wake(): Unit = {
    hasNews = true
    action.resume()
  }

  /** Begins a round, unless one is in progress. */
  def begin(): Unit = if (!isInRound) {
    isInRound = true
    hasNews = false
    rows.nextRound()
    // The driver's clock, by which the micro-batch began, may be ahead of this machine's.
    state.clock.processingTime = math.max(state.clock.processingTime, time.currentProcessingTime)
    order.advance(task.watermark, state.clock.processingTime)
  }

  /** Ends a round, of which nothing is left to do; returns true if it was the last one. */
  def end(): Boolean = {
    isInRound = false
    if (!rows.isOver && rows.isAwaiting && !hasNews) rest()
    rows.isOver
  }

  private def rest(): Unit = {
    val next = state.timers.nextTimestamp(TimeDomain.PROCESSING_TIME)
    if (next == Long.MaxValue) time.cancel(nextTimer): Unit
    else time.schedule(nextTimer, next)
    action.suspend()
  }

  /** Ends the clock. */
  def close(): Unit = time.close()
}
