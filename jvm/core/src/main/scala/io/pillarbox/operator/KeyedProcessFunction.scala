package io.pillarbox.operator

import io.pillarbox.state.{State, StateDescriptor}
import io.pillarbox.timer.TimerKind

/**
 * Processes the rows of one key after the other, with state and timers of that key.
 *
 * One object serves all keys of a partition; whatever belongs to a key goes into state. All calls are on the mailbox
 * thread, never two at a time. What a method throws fails the task.
 */
abstract class KeyedProcessFunction[K, IN, OUT] extends Serializable {

  /** Called once before the first row: get state handles here. There is no current key. */
  def open(context: KeyedProcessFunction.OpenContext): Unit = ()

  /** Called for every row, its key being the current one. */
  def processElement(value: IN, context: KeyedProcessFunction.Context[K], out: Collector[OUT]): Unit

  /** Called when a timer fires, its key being the current one. Rows emitted by event-time timers get its timestamp. */
  def onTimer(timestamp: Long, context: KeyedProcessFunction.OnTimerContext[K], out: Collector[OUT]): Unit =
    ()

  /** Called once after the last row, also after a failure. */
  def close(): Unit = ()
}

object KeyedProcessFunction {

  /** What a function can get when it is opened. */
  trait OpenContext {

    /** The handle of a state; it always acts on the current key. */
    def getState[S <: State](descriptor: StateDescriptor[S]): S
  }

  /** What a function knows while a row or timer is processed. Valid during the call only. */
  trait Context[K] {

    /** The row's timestamp in milliseconds since 1970, [[Output.NoTimestamp]] if it has none; that of a timer. */
    def timestamp: Long

    def currentKey: K

    def timerService: TimerService

    /** Emits a row to a side output, with the timestamp of the row or timer that is processed. */
    def output[X](tag: OutputTag[X], value: X): Unit
  }

  trait OnTimerContext[K] extends Context[K] {

    /** What made the timer fire. */
    def timeDomain: TimerKind
  }
}

/** Takes the rows that a function emits. */
trait Collector[OUT] {
  def collect(value: OUT): Unit
}
