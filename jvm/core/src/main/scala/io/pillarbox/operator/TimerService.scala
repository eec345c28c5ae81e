package io.pillarbox.operator

import io.pillarbox.state.{Namespace, StateClock}
import io.pillarbox.timer.{InternalTimerService, Timer, TimerKind}

/**
 * The clocks and the timers of the current key, for functions. Times are in milliseconds since 1970. Timers of other
 * namespaces than the void one are none of the function's.
 */
final class TimerService private[pillarbox] (internal: InternalTimerService[_], clock: StateClock) {

  def currentProcessingTime: Long = clock.processingTime

  /** `Long.MinValue` before the first watermark. */
  def currentWatermark: Long = clock.watermark

  /** `onTimer` is called once when the watermark reaches `time`; registering it twice is registering it once. */
  def registerEventTimeTimer(time: Long): Unit = internal.registerEventTimeTimer(Namespace.Void, time)

  /** `onTimer` is called once when processing time reaches `time`. */
  def registerProcessingTimeTimer(time: Long): Unit =
    internal.registerProcessingTimeTimer(Namespace.Void, time)

  /** No-op if there is no such timer. */
  def deleteEventTimeTimer(time: Long): Unit = internal.deleteEventTimeTimer(Namespace.Void, time)

  /** No-op if there is no such timer. */
  def deleteProcessingTimeTimer(time: Long): Unit = internal.deleteProcessingTimeTimer(Namespace.Void, time)

  /** The times of the current key's event-time timers, ascending. */
  def eventTimeTimers: Seq[Long] = timers(TimerKind.EventTime).map(_.timestamp)

  /** The times of the current key's processing-time timers, ascending. */
  def processingTimeTimers: Seq[Long] = timers(TimerKind.ProcessingTime).map(_.timestamp)

  /** Deletes all timers of the current key; how many there were. */
  def deleteAllTimers(): Int = {
    val (event, processing) = (eventTimeTimers, processingTimeTimers)
    event.foreach(deleteEventTimeTimer)
    processing.foreach(deleteProcessingTimeTimer)
    event.size + processing.size
  }

  private def timers(kind: TimerKind): Seq[Timer[_]] =
    internal.timersOfCurrentKey(kind).filter(_.namespace.isVoid)
}
