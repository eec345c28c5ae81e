package io.pillarbox.operator

import io.pillarbox.operator.KeyedProcessFunction.{Context, OnTimerContext, OpenContext}
import io.pillarbox.state.{KeyedStateBackend, State, StateDescriptor}
import io.pillarbox.timer.{InternalTimerService, KeyContext, Timer, TimerKind, Triggerable}

/**
 * Calls a keyed process function with the right key, timestamp and output: what the streaming and the batch operator
 * have in common. The contexts and the collector are made once, not for every row.
 */
private[operator] final class KeyedFunctionRunner[K, IN, OUT](
    function: KeyedProcessFunction[K, IN, OUT],
    backend: KeyedStateBackend[K],
    clock: OperatorClock
) extends KeyContext[K]
    with Triggerable[K] {

  private var output: Output[OUT] = _
  private var timers: TimerService = _
  private var handles = Vector.empty[State]

  private val collector: Collector[OUT] = value => output.collect(value, emittedTimestamp)
  private val context = new RowContext
  private val timerContext = new TimerContext

  /** Rows of processing-time timers have no timestamp, though the timer has one. */
  private var emittedTimestamp = Output.NoTimestamp

  def open(output: Output[OUT], timerService: InternalTimerService[K]): Unit = {
    this.output = output
    timers = new TimerService(timerService)
    function.open(new OpenContext {
      override def getState[S <: State](descriptor: StateDescriptor[S]): S = {
        val handle = backend.getOrCreate(descriptor)
        if (!handles.exists(_ eq handle)) handles :+= handle
        handle
      }
    })
  }

  def processElement(key: K, value: IN, timestamp: Long): Unit = {
    enter(timestamp, timestamp)
    backend.setCurrentKey(key)
    function.processElement(value, context, collector)
  }

  override def onEventTime(timer: Timer[K]): Unit = onTimer(timer, timer.timestamp)

  override def onProcessingTime(timer: Timer[K]): Unit = onTimer(timer, Output.NoTimestamp)

  override def currentKey: K = backend.currentKey

  override def setCurrentKey(key: K): Unit = backend.setCurrentKey(key)

  /** Removes all that the current key holds in the function's states. */
  def clearState(): Unit = handles.foreach(_.clear())

  def close(): Unit = function.close()

  private def onTimer(timer: Timer[K], emitted: Long): Unit = {
    enter(timer.timestamp, emitted)
    timerContext.timeDomain = timer.kind
    function.onTimer(timer.timestamp, timerContext, collector)
  }

  private def enter(timestamp: Long, emitted: Long): Unit = {
    context.timestamp = timestamp
    timerContext.timestamp = timestamp
    emittedTimestamp = emitted
    // The time of state under event-time TTL: a processing-time timer has no event time.
    clock.currentTimestamp = emitted
  }

  private class RowContext extends Context[K] {
    var timestamp: Long = Output.NoTimestamp
    override def currentKey: K = backend.currentKey
    override def timerService: TimerService = timers
    override def output[X](tag: OutputTag[X], value: X): Unit =
      KeyedFunctionRunner.this.output.collect(tag, value, timestamp)
  }

  private final class TimerContext extends RowContext with OnTimerContext[K] {
    var timeDomain: TimerKind = _
  }
}
