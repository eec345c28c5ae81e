package io.pillarbox.operator

import io.pillarbox.api.TimeDomain
import io.pillarbox.timer.{PolledTimerService, Timer}

/**
 * The common part of the orders of streams. A round is a micro-batch: its rows; when all are done with, the
 * watermark moves, and the timers that are due fire, until none is.
 */
private[pillarbox] abstract class StreamOrder[K, R](
    protected val timers: PolledTimerService[K],
    protected val clock: EventClock,
    protected val target: KeyedTarget[K, R]
) extends KeyedSchedule {
  import StreamOrder._

  private var stage: Int = Over
  private var watermark = Long.MinValue
  private var processingTime = Long.MinValue

  /**
   * Begins a round, or widens the one in progress.
   *
   * @param watermark event-time timers up to it are due; `Long.MinValue` for none
   * @param processingTime processing-time timers up to it are due; `Long.MinValue` for none
   */
  final def advance(watermark: Long, processingTime: Long): Unit = {
    this.watermark = math.max(this.watermark, watermark)
    this.processingTime = math.max(this.processingTime, processingTime)
    stage = AfterRows
  }

  override final def step(): Boolean = stepRow() || stepTimers()

  /** Takes the next row; returns false if there is none for now. */
  protected def stepRow(): Boolean

  /** Gives the target what is next in event time up to the watermark; returns false if nothing is. */
  protected def stepEventTime(watermark: Long): Boolean

  /** Called when the rows are done with: moves the watermark. */
  protected def leaveRows(watermark: Long): Unit

  /** Sets the watermark that an event-time timer sees. */
  protected def enter(timer: Timer[K]): Unit

  /** Gives a timer to the target; returns false if it is null. */
  protected final def fire(timer: Timer[K]): Boolean = {
    if (timer != null) {
      if (timer.kind == TimeDomain.EVENT_TIME) {
        enter(timer)
        clock.recordTimestamp = timer.timestamp
      } else clock.recordTimestamp = Output.NoTimestamp
      target.takeTimer(timer, KeyedSchedule.before(timer.timestamp))
    }
    timer != null
  }

  private def stepTimers(): Boolean = {
    val isOver = stage == Over
    stage match {
      case AfterRows =>
        target.settle(Long.MinValue)
        leaveRows(watermark)
        stage = EventTime
      case EventTime =>
        if (!stepEventTime(watermark)) {
          target.settle(watermark)
          if (!timers.isDue(TimeDomain.EVENT_TIME, watermark)) leaveEventTime()
        }
      case ProcessingTime =>
        if (!fire(timers.pollDue(TimeDomain.PROCESSING_TIME, processingTime))) {
          target.settle(processingTime)
          if (!timers.isDue(TimeDomain.PROCESSING_TIME, processingTime)) leaveProcessingTime()
        }
      case _ => ()
    }
    !isOver
  }

  private def leaveEventTime(): Unit = {
    clock.advanceTo(math.max(clock.reached, watermark))
    stage = ProcessingTime
  }

  private def leaveProcessingTime(): Unit =
    if (timers.isDue(TimeDomain.EVENT_TIME, watermark)) stage = EventTime
    else {
      stage = Over
      watermark = Long.MinValue
      processingTime = Long.MinValue
    }
}

private object StreamOrder {
  final val AfterRows = 0
  final val EventTime = 1
  final val ProcessingTime = 2
  final val Over = 3
}
