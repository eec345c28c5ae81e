package io.pillarbox.operator

import io.pillarbox.api.KeyedProcessFunction.{Context, OnTimerContext}
import io.pillarbox.api.{Collector, KeyedProcessFunction, OutputTag, TimeDomain, TimerService}
import io.pillarbox.state.{KeyedStateBackend, StateClock}
import io.pillarbox.timer.{InternalTimerService, Timer}

/**
 * Calls a keyed process function with the right key, timestamp and output. The contexts and the collector are
 * made once, not for every row. Mailbox thread only.
 *
 * @param states the states that the function got when it was opened
 * @param view shows keys and rows as the function sees them
 * @param refusal makes the error for a timer that the function registers, or that an earlier one has left to
 *   it; None if it may have timers
 */
private[pillarbox] final class FunctionTarget[K, R, FK, IN, OUT](
    function: KeyedProcessFunction[FK, IN, OUT],
    states: FunctionStates[K],
    backend: KeyedStateBackend[K],
    timers: InternalTimerService[K],
    clock: EventClock,
    output: Output[OUT],
    view: FunctionTarget.View[K, R, FK, IN],
    refusal: Option[() => RuntimeException] = None
) extends KeyedTarget[K, R] {
  private val service = new FunctionTimers(timers, clock, backend, refusal)

  /** Rows of processing-time timers have no timestamp, though the timer has one. */
  private val collector: Collector[OUT] = { value =>
    backend.checkThread()
    output.collect(value, clock.recordTimestamp)
  }
  private val context = new RowContext
  private val timerContext = new TimerContext

  override def firesWithin: Boolean = false

  override def takeRow(row: R, time: Long): Unit = takeRow(view.keyOf(row), row, time)

  override def takeRow(key: K, row: R, time: Long): Unit = {
    backend.setCurrentKey(key)
    context.timestamp = time
    context.late = view.isLate(row)
    function.processElement(view.input(row), context, collector)
  }

  override def takeTimer(timer: Timer[K], horizon: Long): Unit = {
    backend.setCurrentKey(timer.key)
    timerContext.timestamp = timer.timestamp
    timerContext.timeDomain = timer.kind
    refusal.foreach(error => throw error())
    output.fired(timer.kind)
    function.onTimer(timer.timestamp, timerContext, collector)
  }

  override def startKey(key: K): Unit = backend.setCurrentKey(key)

  /** Removes all that the key holds in the function's states. */
  override def endKey(key: K): Unit = {
    backend.setCurrentKey(key)
    states.clear()
  }

  override def settle(horizon: Long): Unit = ()

  private class RowContext extends Context[FK] {
    var timestamp: Long = Output.NoTimestamp
    var late: Boolean = false
    override def isLate: Boolean = late
    override def currentKey: FK = view.key(backend.currentKey)
    override def timerService: TimerService = service
    override def output[X](tag: OutputTag[X], value: X): Unit = {
      backend.checkThread()
      FunctionTarget.this.output.collect(tag, value, timestamp)
    }
  }

  private final class TimerContext extends RowContext with OnTimerContext[FK] {
    var timeDomain: TimeDomain = _
  }
}

private[pillarbox] object FunctionTarget {

  /** Turns the operator's rows and keys into those of the function. */
  trait View[K, R, FK, IN] {

    /** The key of a row; may be one object for all rows. */
    def keyOf(row: R): K
    def key(key: K): FK
    def input(row: R): IN

    /** True for a row behind the watermark, if the function gets such rows. */
    def isLate(row: R): Boolean = false
  }
}

/** Takes an operator's rows and watermarks. Called on the mailbox thread. */
private[pillarbox] trait Output[OUT] {

  /** @param timestamp in milliseconds since 1970, [[Output.NoTimestamp]] if the row has none */
  def collect(value: OUT, timestamp: Long): Unit

  /** Takes a row for a side output; an owner that does not know the tag drops it. */
  def collect[X](tag: OutputTag[X], value: X, timestamp: Long): Unit

  /** Tells that a timer is about to fire, for owners that count them. */
  def fired(kind: TimeDomain): Unit = ()

  /** Tells that no row with a timestamp up to `timestamp` follows, except late rows. */
  def emitWatermark(timestamp: Long): Unit
}

private[pillarbox] object Output {

  /** The timestamp of a row without one. */
  final val NoTimestamp: Long = StateClock.Unknown
}
