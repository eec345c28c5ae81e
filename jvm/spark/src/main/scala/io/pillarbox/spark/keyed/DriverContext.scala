package io.pillarbox.spark.keyed

import io.pillarbox.api.TimeDomain
import io.pillarbox.mailbox.MailboxExecutor
import io.pillarbox.operator.EventClock
import io.pillarbox.spark.state.PartitionState
import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.timer.InternalTimerService
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType

/** The context of the operator of one task. */
private final class DriverContext(
    override val task: KeyedTaskSpec,
    state: PartitionState,
    allTimers: InternalTimerService[UnsafeRow],
    val ready: ReadyRows,
    override val mailboxExecutor: MailboxExecutor,
    onResume: () => Unit,
    onFail: Throwable => Unit,
    override val taskContext: TaskContext
) extends KeyedOperatorContext {
  private val toKey = task.keyProjection()
  private val eventTimers = task.metrics.get(KeyedMetrics.EventTimersFired)
  private val processingTimers = task.metrics.get(KeyedMetrics.ProcessingTimersFired)

  override def spec: KeyedSpec = task.spec
  override val inputSchema: StructType = task.inputSchema
  override def resultSchema: StructType = task.spec.output
  override val keySchema: StructType = task.keySchema
  override def isBatch: Boolean = task.isBatch
  override def hasEventTime: Boolean = task.hasEventTime
  override def processingTime: Long = task.batchTime
  override def backend: KeyedStateBackend[UnsafeRow] = state.backend
  override val timers: InternalTimerService[UnsafeRow] =
    if (task.hasEventTime) allTimers else new TimersWithoutWatermark(allTimers, task.spec.name)

  override def keyOf(row: InternalRow): UnsafeRow = toKey(row).asInstanceOf[UnsafeRow]

  override private[keyed] def clock: EventClock = state.clock

  override def collect(row: InternalRow): Unit = ready.add(row)

  override private[keyed] def collectAll(rows: Iterator[UnsafeRow]): Unit = ready.addAll(rows)

  override private[keyed] def settleRows(): Unit = ready.settle()

  override def resume(): Unit = onResume()

  override def fail(error: Throwable): Unit = onFail(error)

  override def kept: AutoCloseable = state.kept

  override def kept_=(value: AutoCloseable): Unit = state.kept = value

  override def count(metric: String, by: Long): Unit = task.metrics.get(metric).foreach(_ += by)

  override def countTimers(kind: TimeDomain, by: Long): Unit = {
    val metric = kind match {
      case TimeDomain.EVENT_TIME => eventTimers
      case TimeDomain.PROCESSING_TIME => processingTimers
    }
    metric.foreach(_ += by)
  }
}
