package io.pillarbox.spark.keyed

import io.pillarbox.mailbox.MailboxExecutor
import io.pillarbox.operator.Output
import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.timer.{InternalTimerService, Timer, TimerKind}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.StructType

/** What surrounds the operator of one task, and where its rows gather. */
final private class DriverContext(
    override val task: KeyedTask,
    state: PartitionState,
    val ready: ReadyRows,
    override val mailboxExecutor: MailboxExecutor,
    onResume: () => Unit,
    onFail: Throwable => Unit,
    override val taskContext: TaskContext
) extends KeyedOperatorContext {
  private val toKey = task.keyProjection()
  private lazy val toUnsafe = UnsafeProjection.create(task.inputSchema)
  private val timestampOrdinal = task.timestampOrdinal
  private val guarded = new GuardedTimers(state.timers, state.clock, task)

  override def spec: KeyedSpec = task.spec
  override val inputSchema: StructType = task.inputSchema
  override def resultSchema: StructType = task.spec.output
  override val keySchema: StructType = task.keySchema
  override def isBatch: Boolean = task.isBatch
  override def hasEventTime: Boolean = task.hasEventTime
  override def watermark: Long = state.clock.watermark
  override def processingTime: Long = task.batchTime
  override def backend: KeyedStateBackend[UnsafeRow] = state.backend
  override def timers: InternalTimerService[UnsafeRow] = guarded

  override def keyOf(row: InternalRow): UnsafeRow = toKey(row).asInstanceOf[UnsafeRow]

  override def pollTimer(kind: TimerKind, time: Long): Timer[UnsafeRow] = {
    val timer = state.timers.pollDue(kind, time)
    if (timer != null) countTimer(kind)
    timer
  }

  override def withEvent(timestamp: Long, watermark: Long): Unit = {
    state.clock.recordTimestamp = timestamp
    state.clock.watermark = watermark
  }

  private[keyed] override def clock: TaskClock = state.clock

  override def dropNewTimers(drop: Boolean): Unit = guarded.dropNew = drop

  override def collect(row: InternalRow): Unit = ready.add(row)

  private[keyed] override def collectAll(rows: Iterator[UnsafeRow]): Unit = ready.addAll(rows)

  private[keyed] override def settleRows(): Unit = ready.settle()

  override def resume(): Unit = onResume()

  override def fail(error: Throwable): Unit = onFail(error)

  override def kept: AutoCloseable = state.kept

  override def kept_=(value: AutoCloseable): Unit = state.kept = value

  override def count(metric: String, by: Long): Unit = task.metrics.get(metric).foreach(_ += by)

  /** The watermark that the operator sees from now on. */
  def atEvent(watermark: Long): Unit = state.clock.watermark = watermark

  def countTimer(kind: TimerKind): Unit = kind match {
    case TimerKind.EventTime => count(KeyedMetrics.EventTimersFired, 1)
    case TimerKind.ProcessingTime => count(KeyedMetrics.ProcessingTimersFired, 1)
  }

  def unsafe(row: InternalRow): UnsafeRow = row match {
    case unsafe: UnsafeRow => unsafe
    case other => toUnsafe(other)
  }

  /**
   * Time-sorted rows are rounded up to milliseconds: so a row comes before a timer exactly if its time in microseconds
   * is not after that of the timer, and is not due before the watermark has reached it.
   */
  def timestampOf(row: UnsafeRow): Long =
    if (timestampOrdinal < 0 || row.isNullAt(timestampOrdinal)) Output.NoTimestamp
    else if (spec.timeSorted) -Math.floorDiv(-row.getLong(timestampOrdinal), DriverContext.MicrosPerMs)
    else Math.floorDiv(row.getLong(timestampOrdinal), DriverContext.MicrosPerMs)

  /** @throws RuntimeException (TIMESTAMP_MISSING) if the row has no event time */
  def timeToSortBy(row: UnsafeRow): Long = {
    val time = timestampOf(row)
    if (time == Output.NoTimestamp) {
      val text = row.toSeq(inputSchema).map(String.valueOf).mkString("[", ", ", "]")
      throw KeyedErrors.rowWithoutTime(spec.name, task.timestamp.fold("the time")(_.name), text)
    }
    time
  }
}

private object DriverContext {
  final val MicrosPerMs = 1000L
}
