package io.pillarbox.spark.keyed

import io.pillarbox.api.TimeDomain
import io.pillarbox.mailbox.MailboxExecutor
import io.pillarbox.operator.EventClock
import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.timer.InternalTimerService
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType

/**
 * The services that an operator uses. Mailbox thread only, except [[fail]].
 *
 * Times are in milliseconds since 1970.
 */
private[pillarbox] trait KeyedOperatorContext {
  def spec: KeyedSpec

  /** The columns of the rows that come in. */
  def inputSchema: StructType

  /** The columns of the rows that go out. */
  def resultSchema: StructType

  /** The key columns, in the order of the spec. */
  def keySchema: StructType

  /** Returns the key of an input row for [[backend]], as the same object for all rows: copy it to keep it. */
  def keyOf(row: InternalRow): UnsafeRow

  /** True if the data are static: one key after the other, no watermark, and state that nobody keeps. */
  def isBatch: Boolean

  /** True if event-time timers can fire: in a batch always, in a stream with a watermark. */
  def hasEventTime: Boolean

  /** The time of the micro-batch or batch, which is the same for all its tasks and for a replay. */
  def processingTime: Long

  /** The state of the partition. The key must be set before any access. */
  def backend: KeyedStateBackend[UnsafeRow]

  /**
   * The timers of the backend's current key. In a batch there are timers while a key's rows run, and none can
   * be registered at its end. Registering an event-time timer where there is no event time throws
   * TIMER_WITHOUT_WATERMARK.
   */
  def timers: InternalTimerService[UnsafeRow]

  /** The times of the event in progress, by which state with TTL goes. */
  private[keyed] def clock: EventClock

  /** Emits a row, which is copied if it can change. */
  def collect(row: InternalRow): Unit

  /** Emits rows made when asked for, perhaps as one object. Their source must last until [[settleRows]]. */
  private[keyed] def collectAll(rows: Iterator[UnsafeRow]): Unit

  /** Makes all rows that [[collectAll]] took and that are not made yet. */
  private[keyed] def settleRows(): Unit

  /** Tells that there is room again: a refused event is offered again. */
  def resume(): Unit

  /** The executor of answers, on the mailbox thread. */
  def mailboxExecutor: MailboxExecutor

  /** Fails the task. Any thread. */
  def fail(error: Throwable): Unit

  def task: KeyedTaskSpec

  def taskContext: TaskContext

  /**
   * An object that the operator finds again in the next micro-batch of the partition on this executor, such
   * as an opened function; null at first. Closed with the partition's state.
   */
  var kept: AutoCloseable

  /** Adds to one of the metrics of [[KeyedMetrics]], where the operator has it. */
  def count(metric: String, by: Long): Unit

  /** Counts timers that fire. */
  def countTimers(kind: TimeDomain, by: Long): Unit
}
