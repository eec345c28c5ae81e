package io.pillarbox.spark.keyed

import io.pillarbox.state.Namespace
import io.pillarbox.timer.{InternalTimerService, Timer, TimerKind}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * The timers that an operator sees: clocks of the event in progress, no event-time timers where none can ever fire, and
 * none at all while those of a finished key of a batch fire (a key that keeps registering would never end).
 */
final private class GuardedTimers(
    inner: InternalTimerService[UnsafeRow],
    clock: TaskClock,
    task: KeyedTask
) extends InternalTimerService[UnsafeRow] {

  /** Whether new timers are dropped. */
  var dropNew = false

  override def currentProcessingTime: Long = clock.processingTime

  override def currentWatermark: Long = clock.watermark

  override def registerEventTimeTimer(namespace: Namespace, time: Long): Unit = {
    if (!task.hasEventTime) throw KeyedErrors.withoutWatermark(task.spec.name)
    if (!dropNew) inner.registerEventTimeTimer(namespace, time)
  }

  override def registerProcessingTimeTimer(namespace: Namespace, time: Long): Unit =
    if (!dropNew) inner.registerProcessingTimeTimer(namespace, time)

  override def deleteEventTimeTimer(namespace: Namespace, time: Long): Unit =
    inner.deleteEventTimeTimer(namespace, time)

  override def deleteProcessingTimeTimer(namespace: Namespace, time: Long): Unit =
    inner.deleteProcessingTimeTimer(namespace, time)

  override def timersOfCurrentKey(kind: TimerKind): Seq[Timer[UnsafeRow]] =
    inner.timersOfCurrentKey(kind).filterNot(TimeSortedRows.isRowTimer)

  override def deleteTimersOfCurrentKey(): Int = {
    val timers = Seq(TimerKind.EventTime, TimerKind.ProcessingTime).flatMap(timersOfCurrentKey)
    timers.foreach { timer =>
      if (timer.kind == TimerKind.EventTime) inner.deleteEventTimeTimer(timer.namespace, timer.timestamp)
      else inner.deleteProcessingTimeTimer(timer.namespace, timer.timestamp)
    }
    timers.size
  }
}
