package io.pillarbox.spark.keyed

import io.pillarbox.api.TimeDomain
import io.pillarbox.state.Namespace
import io.pillarbox.timer.{InternalTimerService, Timer}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** The timers of a stream without a watermark, where event-time timers could never fire. */
private final class TimersWithoutWatermark(inner: InternalTimerService[UnsafeRow], operator: String)
    extends InternalTimerService[UnsafeRow] {

  /** @throws RuntimeException (TIMER_WITHOUT_WATERMARK) if it is for event time */
  override def register(kind: TimeDomain, namespace: Namespace, time: Long): Unit =
    if (kind == TimeDomain.PROCESSING_TIME) inner.register(kind, namespace, time)
    else throw KeyedErrors.named("TIMER_WITHOUT_WATERMARK", operator, "operator" -> operator)

  override def delete(kind: TimeDomain, namespace: Namespace, time: Long): Unit =
    inner.delete(kind, namespace, time)

  override def timersOfCurrentKey(kind: TimeDomain): Seq[Timer[UnsafeRow]] = inner.timersOfCurrentKey(kind)
}
