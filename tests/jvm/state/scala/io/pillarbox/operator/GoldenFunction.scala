package io.pillarbox.operator

import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import io.pillarbox.api.KeyedProcessFunction.{Context, OnTimerContext, OpenContext}
import io.pillarbox.api.{
  Collector,
  KeyedProcessFunction,
  ListState,
  ScalaSerializers,
  Serializers,
  TimeDomain,
  ValueState
}
import io.pillarbox.golden.GoldenProgram
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state._

/** Plays golden cases: keys are their names, rows what they do; emits what is told. */
final class GoldenFunction(cases: Seq[GoldenCase])
    extends KeyedProcessFunction[String, (String, String), (String, String)] {
  private val on = cases.map(one => one.name -> one.on).toMap
  private var value: ValueState[String] = _
  private var brief: ValueState[String] = _
  private var list: ListState[Long] = _

  private val program = new GoldenProgram {
    override protected def value(): java.lang.Long = GoldenFunction.number(GoldenFunction.this.value)
    override protected def put(number: Long): Unit = GoldenFunction.this.value.update(number.toString)
    override protected def brief(): java.lang.Long = GoldenFunction.number(GoldenFunction.this.brief)
    override protected def putBrief(number: Long): Unit = GoldenFunction.this.brief.update(number.toString)
    override protected def add(element: Long): Unit = list.add(element)
    override protected def all(): JList[java.lang.Long] =
      list.get().map(java.lang.Long.valueOf(_)).toSeq.asJava
  }

  override def open(context: OpenContext): Unit = {
    val ttl = TestState.ttl(10, timeDomain = TimeDomain.EVENT_TIME)
    value = context.getState(TestState.value("value", Serializers.ofString))
    brief = context.getState(TestState.value("brief", Serializers.ofString, Some(ttl)))
    list = context.getState(TestState.list("list", ScalaSerializers.long))
  }

  override def processElement(
      row: (String, String),
      context: Context[String],
      out: Collector[(String, String)]
  ): Unit = {
    val time =
      if (context.timestamp == Output.NoTimestamp) null else java.lang.Long.valueOf(context.timestamp)
    out.collect((context.currentKey, program.tell("row", time, row._2, context.timerService)))
  }

  override def onTimer(
      timestamp: Long,
      context: OnTimerContext[String],
      out: Collector[(String, String)]
  ): Unit = {
    val kind = if (context.timeDomain == TimeDomain.EVENT_TIME) "event" else "clock"
    val ops = on(context.currentKey).getOrElse(s"$kind $timestamp", "")
    out.collect((context.currentKey, program.tell(kind, timestamp, ops, context.timerService)))
  }

  /** For the current key. */
  def put(state: GoldenState): Unit = {
    state.value.foreach(number => value.update(number.toString))
    state.list.foreach(list.add)
  }

  /** What the current key has. */
  def state: (Option[Long], Seq[Long]) = (Option(value.value()).map(_.toLong), list.get().toSeq)
}

private object GoldenFunction {
  def number(state: ValueState[String]): java.lang.Long =
    Option(state.value()).fold(null: java.lang.Long)(java.lang.Long.valueOf)
}
