package io.pillarbox.operator

import java.lang.{Long => JLong}
import java.util

import scala.jdk.CollectionConverters._

import io.pillarbox.api.{TimeDomain, TimerService}
import io.pillarbox.state.{KeyedStateBackend, Namespace, StateClock}
import io.pillarbox.timer.InternalTimerService

/**
 * The clocks and the timers of the void namespace, as a function sees them.
 *
 * @param refusal makes the error for a timer that the function registers; None if it may
 */
private[operator] final class FunctionTimers(
    internal: InternalTimerService[_],
    clock: StateClock,
    backend: KeyedStateBackend[_],
    refusal: Option[() => RuntimeException]
) extends TimerService {

  /** Checks that this is the owner's thread and that a key is set. */
  private def own: InternalTimerService[_] = {
    backend.checkAccess()
    internal
  }

  override def currentProcessingTime: Long = clock.processingTime

  override def currentWatermark: Long = clock.watermark

  override def registerEventTimeTimer(time: Long): Unit =
    register(TimeDomain.EVENT_TIME, time)

  override def registerProcessingTimeTimer(time: Long): Unit =
    register(TimeDomain.PROCESSING_TIME, time)

  override def deleteEventTimeTimer(time: Long): Unit =
    own.delete(TimeDomain.EVENT_TIME, Namespace.Void, time)

  override def deleteProcessingTimeTimer(time: Long): Unit =
    own.delete(TimeDomain.PROCESSING_TIME, Namespace.Void, time)

  override def eventTimeTimers: util.List[JLong] = timers(TimeDomain.EVENT_TIME)

  override def processingTimeTimers: util.List[JLong] = timers(TimeDomain.PROCESSING_TIME)

  override def deleteAllTimers(): Int = {
    val (event, processing) = (eventTimeTimers, processingTimeTimers)
    event.forEach(deleteEventTimeTimer(_))
    processing.forEach(deleteProcessingTimeTimer(_))
    event.size + processing.size
  }

  private def register(kind: TimeDomain, time: Long): Unit = {
    refusal.foreach(error => throw error())
    own.register(kind, Namespace.Void, time)
  }

  private def timers(kind: TimeDomain): util.List[JLong] =
    own
      .timersOfCurrentKey(kind)
      .collect { case t if t.namespace.isVoid => JLong.valueOf(t.timestamp) }
      .asJava
}
