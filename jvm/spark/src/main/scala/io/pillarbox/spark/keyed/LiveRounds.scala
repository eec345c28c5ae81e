package io.pillarbox.spark.keyed

import io.pillarbox.api.TimeDomain
import io.pillarbox.mailbox.{ProcessingTimer, SystemProcessingTimeService}
import io.pillarbox.operator.StreamOrder
import io.pillarbox.spark.state.PartitionState
import io.pillarbox.spark.task.{MailboxStep, OperatorInput, OperatorMailbox}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Cuts a long micro-batch of real-time mode into rounds of its order: the rows that have come, then the
 * timers that are due by the machine's clock. Between rounds the operator's action rests until a row comes or
 * the next processing-time timer is due. Mailbox thread only.
 *
 * The first round takes no rows: the watermark of the micro-batch comes into force with it and event-time
 * timers fire, so all rows are under that watermark, and timers set for a time behind it fire at once.
 */
private final class LiveRounds(
    task: KeyedTaskSpec,
    input: OperatorInput,
    rows: InputRows,
    state: PartitionState,
    order: StreamOrder[UnsafeRow, UnsafeRow],
    action: MailboxStep,
    operatorMailbox: OperatorMailbox
) {
  private val time = new SystemProcessingTimeService(
    action.processor.mailboxExecutor(operatorMailbox.nextPriority())
  )
  private val nextTimer = new ProcessingTimer {
    override def onProcessingTime(timestampMs: Long): Unit = wake()
  }
  private var isFirst = true
  private var toldMs = task.batchTime
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
    if (!isFirst) rows.nextRound()
    isFirst = false
    // The driver's clock, by which the micro-batch began, may be ahead of this machine's.
    state.clock.processingTime = math.max(state.clock.processingTime, time.currentProcessingTime)
    order.advance(task.watermark, state.clock.processingTime)
    tellTime()
  }

  /** Lets compaction drop what has expired also in a long micro-batch, as the clock does not go back. */
  private def tellTime(): Unit = if (state.clock.processingTime - toldMs >= LiveRounds.TellTimeMs) {
    toldMs = state.clock.processingTime
    state.backend.timeIs(toldMs)
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

private object LiveRounds {
  private final val TellTimeMs = 60000L
}
