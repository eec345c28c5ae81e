package io.pillarbox.spark.keyed

import io.pillarbox.api.TimeDomain
import io.pillarbox.state.Namespace
import io.pillarbox.timer.{InternalTimerService, Timer}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** The timers of a stream without a watermark, where event-time timers could never fire. */
private final class TimersWithoutWatermark(inner: InternalTimerService[UnsafeRow], operator: String)
    extends InternalTimerService[UnsafeRow] {

  /** @throws RuntimeException (TIMER_WITHOUT_WATERMARK) always */
  override def registerEventTimeTimer(namespace: Namespace, time: Long): Unit =
    throw KeyedErrors.named("TIMER_WITHOUT_WATERMARK", operator, "operator" -> operator)

  override def registerProcessingTimeTimer(namespace: Namespace, time: Long): Unit =
    inner.registerProcessingTimeTimer(namespace, time)

  override def deleteEventTimeTimer(namespace: Namespace, time: Long): Unit =
    inner.deleteEventTimeTimer(namespace, time)

  override def deleteProcessingTimeTimer(namespace: Namespace, time: Long): Unit =
    inner.deleteProcessingTimeTimer(namespace, time)

  override def timersOfCurrentKey(kind: TimeDomain): Seq[Timer[UnsafeRow]] = inner.timersOfCurrentKey(kind)
}
