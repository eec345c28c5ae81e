package io.pillarbox.spark.keyed

import io.pillarbox.operator.KeyedProcessFunction.OpenContext
import io.pillarbox.operator.{KeyedProcessFunction, Output}
import io.pillarbox.spark.UserClasses
import io.pillarbox.state.{State, StateDescriptor}
import io.pillarbox.timer.{Timer, TimerKind}
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Runs a `KeyedProcessFunction[Row, Row, Row]` of the JVM: row by row, timer by timer, at once.
 *
 * The function is made and opened once for a partition in an executor, and kept across micro-batches.
 */
final class JvmKeyedOperator(className: String, options: Map[String, String]) extends KeyedOperator {
  private var context: KeyedOperatorContext = _
  private var function: OpenedFunction = _
  private var lastTime = Long.MinValue

  override def open(context: KeyedOperatorContext): Unit = {
    this.context = context
    function = context.kept match {
      case opened: OpenedFunction => opened
      case _ => openFunction()
    }
    function.bind(context)
  }

  override def initialTargets: Map[String, () => InitialTarget] = function.initialTargets

  override def tryProcessElement(row: UnsafeRow, timestamp: Long): Boolean = {
    context.backend.setCurrentKey(context.keyOf(row))
    if (context.isBatch && context.spec.timeSorted) advanceKey(timestamp)
    context.withEvent(timestamp, context.watermark)
    function.processElement(row, timestamp)
    true
  }

  override def tryOnTimer(timer: Timer[UnsafeRow]): Boolean = {
    context.backend.setCurrentKey(timer.key)
    // A processing-time timer has no event time.
    val eventTime = if (timer.kind == TimerKind.EventTime) timer.timestamp else Output.NoTimestamp
    context.withEvent(eventTime, context.watermark)
    function.onTimer(timer.timestamp, timer.kind)
    true
  }

  override def tryEndKey(): Boolean = {
    val key = context.backend.currentKey.copy()
    context.dropNewTimers(true)
    fire(TimerKind.EventTime, Long.MaxValue)
    fire(TimerKind.ProcessingTime, Long.MaxValue)
    context.dropNewTimers(false)
    context.backend.setCurrentKey(key)
    function.clearState()
    context.withEvent(Output.NoTimestamp, Long.MinValue)
    lastTime = Long.MinValue
    true
  }

  override def flush(): Unit = ()

  override def isIdle: Boolean = true

  override def close(): Unit = ()

  /** In a time-sorted batch: fires the key's timers before `time`, once no more rows before it can come. */
  private def advanceKey(time: Long): Unit = {
    if (time > lastTime) {
      fire(TimerKind.EventTime, time - 1)
      lastTime = time
    }
    context.withEvent(time, time - 1)
  }

  /** Each timer sees the watermark that would have made it fire: state with TTL of event time lives on until then. */
  private def fire(kind: TimerKind, time: Long): Unit = {
    var timer = context.pollTimer(kind, time)
    while (timer != null) {
      if (kind == TimerKind.EventTime)
        context.withEvent(timer.timestamp, math.max(context.watermark, timer.timestamp))
      tryOnTimer(timer)
      timer = context.pollTimer(kind, time)
    }
  }

  private def openFunction(): OpenedFunction = {
    val made = new UserClasses(s"process_keyed(${context.spec.name})")
      .instantiate(className, options, classOf[KeyedProcessFunction[Row, Row, Row]])
    val opened = new OpenedFunction(made)
    context.kept = opened
    opened.open(new OpenContext {
      override def getState[S <: State](descriptor: StateDescriptor[S]): S =
        opened.remember(descriptor, context.backend.getOrCreate(descriptor))
    })
    opened
  }
}

object JvmKeyedOperator {

  /** Makes operators for a class on the executors' class path. */
  final case class Factory(className: String, options: Map[String, String]) extends KeyedOperatorFactory {
    override def form: String = "jvm"
    override def create(): KeyedOperator = new JvmKeyedOperator(className, options)
  }
}
