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
 * What an operator finds around it. Mailbox thread only, except [[fail]].
 *
 * Times are in milliseconds since 1970.
 */
private[pillarbox] trait KeyedOperatorContext {
  def spec: KeyedSpec

  /** Of the rows that come in. */
  def inputSchema: StructType

  /** Of the rows that go out. */
  def resultSchema: StructType

  /** Of keys: the key columns in the order of the spec. */
  def keySchema: StructType

  /** The key of an input row, as [[backend]] wants it. The same object for every row: copy it to keep it. */
  def keyOf(row: InternalRow): UnsafeRow

  /** Whether the data are static: one key after the other, no watermark, state that nobody keeps. */
  def isBatch: Boolean

  /** Whether event-time timers can fire: in a batch always, in a stream with a watermark. */
  def hasEventTime: Boolean

  /** The micro-batch's (or batch's) time: the same for all its tasks and for a replay. */
  def processingTime: Long

  /** The state of the partition. The key must be set before any access. */
  def backend: KeyedStateBackend[UnsafeRow]

  /**
   * Timers of the backend's current key; in a batch, while its rows run, and none can be registered at its
   * end. Registering an event-time timer where there is no event time is an error that says what to do.
   */
  def timers: InternalTimerService[UnsafeRow]

  /** The times of the event in progress, by which state with TTL goes. */
  private[keyed] def clock: EventClock

  /** Emits a row, which is copied if it can change. */
  def collect(row: InternalRow): Unit

  /**
   * Emits rows that are made when they are asked for, and may be one object. What they are made of must stay
   * as it is until [[settleRows]].
   */
  private[keyed] def collectAll(rows: Iterator[UnsafeRow]): Unit

  /** Makes all rows that [[collectAll]] took and that are not made yet. */
  private[keyed] def settleRows(): Unit

  /** There is room again: what was refused is offered again. */
  def resume(): Unit

  /** Runs answers on the mailbox thread. */
  def mailboxExecutor: MailboxExecutor

  /** Fails the task. Any thread. */
  def fail(error: Throwable): Unit

  def task: KeyedTaskSpec

  def taskContext: TaskContext

  /**
   * What this operator wants to find again in the next micro-batch of the partition on this executor, such as
   * an opened function; null at first. Closed with the partition's state.
   */
  var kept: AutoCloseable

  /** Adds to one of the metrics of [[KeyedMetrics]], where the operator has it. */
  def count(metric: String, by: Long): Unit

  /** Counts timers that fire. */
  def countTimers(kind: TimeDomain, by: Long): Unit
}
