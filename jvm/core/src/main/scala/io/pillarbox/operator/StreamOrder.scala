package io.pillarbox.operator

import io.pillarbox.api.TimeDomain
import io.pillarbox.operator.KeyedSchedule._
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
  private var refused: Timer[K] = _

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

  override final def step(): Step =
    if (refused != null) offer(refused, KeyedSchedule.before(refused.timestamp))
    else {
      val step = stepRow()
      if (step ne Done) step else stepTimers()
    }

  /** Takes the next row; `Done` if there is none for now. */
  protected def stepRow(): Step

  /** Offers what is next in event time up to the watermark; `Done` if nothing is. */
  protected def stepEventTime(watermark: Long): Step

  /** Called when the rows are done with: moves the watermark. */
  protected def leaveRows(watermark: Long): Unit

  /** Sets the watermark that an event-time timer sees. */
  protected def enter(timer: Timer[K]): Unit

  /** Gives a timer to the target, now and at the next steps until it is taken. */
  protected final def offer(timer: Timer[K], horizon: Long): Step = {
    if (timer.kind == TimeDomain.EVENT_TIME) {
      enter(timer)
      clock.recordTimestamp = timer.timestamp
    } else clock.recordTimestamp = Output.NoTimestamp
    val taken = target.tryTimer(timer, horizon)
    refused = if (taken) null else timer
    if (taken) Taken else Refused
  }

  private def stepTimers(): Step = stage match {
    case AfterRows =>
      settled(Long.MinValue) {
        leaveRows(watermark)
        stage = EventTime
      }
    case EventTime =>
      val step = stepEventTime(watermark)
      if (step ne Done) step
      else settled(watermark)(if (!timers.isDue(TimeDomain.EVENT_TIME, watermark)) leaveEventTime())
    case ProcessingTime =>
      val timer = timers.pollDue(TimeDomain.PROCESSING_TIME, processingTime)
      if (timer != null) offer(timer, KeyedSchedule.before(timer.timestamp))
      else
        settled(processingTime)(
          if (!timers.isDue(TimeDomain.PROCESSING_TIME, processingTime)) leaveProcessingTime()
        )
    case _ => Done
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

  private def settled(horizon: Long)(goOn: => Unit): Step = {
    target.settle(horizon)
    if (target.isSettled) {
      goOn
      Taken
    } else Settling
  }
}

private object StreamOrder {
  final val AfterRows = 0
  final val EventTime = 1
  final val ProcessingTime = 2
  final val Over = 3
}
