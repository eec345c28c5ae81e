package io.pillarbox.spark.keyed

import io.pillarbox.api.TimeDomain
import io.pillarbox.operator.EventClock
import io.pillarbox.spark.state.PartitionState
import io.pillarbox.spark.task.Projections
import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.timer.InternalTimerService
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** The services that the operator of one task uses. Mailbox thread only. Times are in ms since 1970. */
private[pillarbox] final class KeyedOperatorContext private[keyed] (
    val task: KeyedTaskSpec,
    state: PartitionState,
    allTimers: InternalTimerService[UnsafeRow],
    ready: ReadyRows,
    val taskContext: TaskContext,
    val projections: Projections
) {
  private val toKey = projections.of(task.boundKeys)
  private val eventTimers = task.metrics.get(KeyedMetrics.EventTimersFired)
  private val processingTimers = task.metrics.get(KeyedMetrics.ProcessingTimersFired)

  def spec: KeyedSpec = task.spec

  /** True if an input row is late, which only functions that get late rows may ask. */
  def isLate(row: InternalRow): Boolean = task.lateMark.isDefined && row.getBoolean(task.columns.size)

  /** Returns the key of an input row for [[backend]], as the same object for all rows: copy it to keep it. */
  def keyOf(row: InternalRow): UnsafeRow = toKey(row)

  /** True if the data are static: one key after the other, no watermark, and state that nobody keeps. */
  def isBatch: Boolean = task.isBatch

  /** The state of the partition. The key must be set before any access. */
  def backend: KeyedStateBackend[UnsafeRow] = state.backend

  /**
   * The timers of the backend's current key. In a batch there are timers while a key's rows run, and none can
   * be registered at its end. Registering an event-time timer where there is no event time throws
   * TIMER_WITHOUT_WATERMARK.
   */
  val timers: InternalTimerService[UnsafeRow] =
    if (task.hasEventTime) allTimers else new TimersWithoutWatermark(allTimers, task.spec.name)

  /** The times of the event in progress, by which state with TTL goes. */
  private[keyed] def clock: EventClock = state.clock

  /** Emits a row, which is copied if it can change. */
  def collect(row: InternalRow): Unit = ready.add(row)

  /** Emits rows made when asked for, perhaps as one object. Their source must last until [[settleRows]]. */
  private[keyed] def collectAll(rows: Iterator[UnsafeRow]): Unit = ready.addAll(rows)

  /** Makes all rows that [[collectAll]] took and that are not made yet. */
  private[keyed] def settleRows(): Unit = ready.settle()

  /**
   * An object that the operator finds again in the next micro-batch of the partition on this executor, such
   * as an opened function; null at first. Closed with the partition's state.
   */
  def kept: AutoCloseable = state.kept

  def kept_=(value: AutoCloseable): Unit = state.kept = value

  /** Adds to one of the metrics of [[KeyedMetrics]], if the operator has it. */
  def count(metric: String, by: Long): Unit = task.metrics.get(metric).foreach(_ += by)

  def countTimers(kind: TimeDomain, by: Long): Unit =
    (if (kind == TimeDomain.EVENT_TIME) eventTimers else processingTimers).foreach(_ += by)
}
