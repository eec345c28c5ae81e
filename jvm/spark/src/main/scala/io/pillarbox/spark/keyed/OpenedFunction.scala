package io.pillarbox.spark.keyed

import io.pillarbox.operator.KeyedProcessFunction.{Context, OnTimerContext, OpenContext}
import io.pillarbox.operator.{Collector, KeyedProcessFunction, OutputTag, TimerService}
import io.pillarbox.state.{State, StateDescriptor}
import io.pillarbox.timer.TimerKind
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * A user's function that has been opened, with its states; lives as long as the partition's state is open.
 *
 * Its contexts are made once a task, not for every row.
 */
final private class OpenedFunction(function: KeyedProcessFunction[Row, Row, Row]) extends AutoCloseable {
  private var states = Map.empty[String, (StateDescriptor[_], State)]
  private var context: KeyedOperatorContext = _
  private var timers: TimerService = _
  private var toInput: Any => Any = _
  private var toKey: Any => Any = _
  private var results: ResultRows = _
  private val rowContext = new RowContext
  private val timerContext = new TimerContext
  private val collector: Collector[Row] = row => context.collect(results.main(row))

  def open(openContext: OpenContext): Unit = function.open(openContext)

  def remember[S <: State](descriptor: StateDescriptor[S], state: S): S = {
    states += descriptor.name -> ((descriptor, state))
    state
  }

  /** Its states, as values that a query starts with get into them. */
  def initialTargets: Map[String, () => InitialTarget] = states.map { case (name, (descriptor, state)) =>
    name -> (() => JvmInitialTarget.of(context.spec.name, descriptor, state))
  }

  /** What it is called with belongs to this task from now on. */
  def bind(context: KeyedOperatorContext): Unit = {
    this.context = context
    timers = new TimerService(context.timers)
    toInput = CatalystTypeConverters.createToScalaConverter(context.inputSchema)
    toKey = CatalystTypeConverters.createToScalaConverter(context.keySchema)
    results = new ResultRows(context.spec)
  }

  def processElement(row: UnsafeRow, timestamp: Long): Unit = {
    rowContext.timestamp = timestamp
    function.processElement(toInput(row).asInstanceOf[Row], rowContext, collector)
  }

  def onTimer(timestamp: Long, kind: TimerKind): Unit = {
    timerContext.timestamp = timestamp
    timerContext.timeDomain = kind
    function.onTimer(timestamp, timerContext, collector)
  }

  /** Removes all that the current key holds in the function's states. */
  def clearState(): Unit = states.values.foreach(_._2.clear())

  /** Not on a task's thread: nobody uses the function any more. */
  override def close(): Unit = function.close()

  private class RowContext extends Context[Row] {
    var timestamp: Long = 0L
    override def currentKey: Row = toKey(context.backend.currentKey).asInstanceOf[Row]
    override def timerService: TimerService = timers
    override def output[X](tag: OutputTag[X], value: X): Unit = context.collect(results.side(tag.id, value))
  }

  private final class TimerContext extends RowContext with OnTimerContext[Row] {
    var timeDomain: TimerKind = _
  }
}
