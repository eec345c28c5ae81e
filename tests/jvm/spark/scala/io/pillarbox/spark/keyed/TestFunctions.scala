package io.pillarbox.spark.keyed

import java.util.{Map => JMap}

import io.pillarbox.api.KeyedProcessFunction.{Context, OnTimerContext, OpenContext}
import io.pillarbox.api.{
  Collector,
  KeyedProcessFunction,
  MapState,
  ScalaSerializers,
  StateDescriptor,
  StateTtl,
  TimeDomain,
  ValueState
}
import io.pillarbox.spark.SparkSerializers
import org.apache.spark.sql.Row

/**
 * Counts and sums the rows of a key and emits both for each row. Sets an event-time timer `timer` ms after
 * each row if that option is set, a processing-time timer after `clock` ms; timers emit what they see. State
 * lives for `ttl` ms of event time, if set.
 */
class Count(options: JMap[String, String]) extends KeyedProcessFunction[Row, Row, Row] {
  private var count: ValueState[Long] = _
  private var seen: MapState[Long, Long] = _
  private val fails = Option(options.get("failAt")).map(_.toLong)

  override def open(context: OpenContext): Unit = {
    val counted = StateDescriptor.value("count", ScalaSerializers.long)
    count = context.getState(option("ttl").fold(counted) { ms =>
      counted.withTtl(StateTtl.ofMillis(ms).withTimeDomain(TimeDomain.EVENT_TIME))
    })
    seen = context.getState(StateDescriptor.map("seen", ScalaSerializers.long, ScalaSerializers.long))
  }

  override def processElement(row: Row, context: Context[Row], out: Collector[Row]): Unit = {
    if (fails.contains(row.getLong(1))) throw new IllegalStateException(s"failing at ${row.getLong(1)}")
    Count.beforeRow.get()(row)
    val n = count.valueOr(0L) + 1
    count.update(n)
    seen.put(row.getLong(1), n)
    option("timer").foreach(ms => context.timerService.registerEventTimeTimer(context.timestamp + ms))
    option("clock").foreach(ms =>
      context.timerService.registerProcessingTimeTimer(context.timerService.currentProcessingTime + ms)
    )
    out.collect(Row(row.get(0), "row", n, row.getLong(1)))
  }

  override def onTimer(timestamp: Long, context: OnTimerContext[Row], out: Collector[Row]): Unit = {
    val what = if (context.timeDomain == TimeDomain.EVENT_TIME) "event" else "clock"
    val time = if (context.timeDomain == TimeDomain.EVENT_TIME) timestamp else 0L
    out.collect(
      Row(context.currentKey.get(0), what, count.valueOr(0L), time)
    )
  }

  private def option(name: String): Option[Long] = Option(options.get(name)).map(_.toLong)
}

object Count {

  /** Called before each row, for tests that interfere. */
  val beforeRow = new java.util.concurrent.atomic.AtomicReference[Row => Unit](_ => ())
}

/** Keeps the last row of a key as a Row of schema `schema`, and emits the one before. */
class LastRow(options: JMap[String, String]) extends KeyedProcessFunction[Row, Row, Row] {
  private var last: ValueState[Row] = _

  override def open(context: OpenContext): Unit =
    last = context.getState(StateDescriptor.value("last", SparkSerializers.rows(options.get("schema"))))

  override def processElement(row: Row, context: Context[Row], out: Collector[Row]): Unit = {
    val before = last.value()
    out.collect(Row(row.get(0), if (before == null) "none" else before.toString, row.getLong(1), 0L))
    val fields = options.get("schema").split(",").length
    val values = Seq(row.getLong(1), row.get(0), null).take(fields)
    last.update(Row(values.zipWithIndex.map { case (v, i) =>
      if (i == 0 && isInt) v.asInstanceOf[Long].toInt else v
    }: _*))
  }

  private def isInt: Boolean = options.get("schema").startsWith("n int")
}

/** Keeps the value of a row if it is odd, and forgets what it kept if it is even. */
class KeepsOdd extends KeyedProcessFunction[Row, Row, Row] {
  private var kept: ValueState[Long] = _

  override def open(context: OpenContext): Unit =
    kept = context.getState(StateDescriptor.value("kept", ScalaSerializers.long))

  override def processElement(row: Row, context: Context[Row], out: Collector[Row]): Unit =
    if (row.getLong(1) % 2 == 1) kept.update(row.getLong(1)) else kept.clear()
}

/** Keeps a number for each key that no row gets twice, and emits it after the one that it kept before. */
class Draws extends KeyedProcessFunction[Row, Row, Row] {
  private var last: ValueState[Long] = _

  override def open(context: OpenContext): Unit =
    last = context.getState(StateDescriptor.value("last", ScalaSerializers.long))

  override def processElement(row: Row, context: Context[Row], out: Collector[Row]): Unit = {
    val drawn = Draws.next.incrementAndGet()
    out.collect(Row(row.get(0), "row", last.valueOr(0L), drawn))
    last.update(drawn)
  }
}

object Draws {
  val next = new java.util.concurrent.atomic.AtomicLong
}

/** Emits the key of each row, and whether the row is late. */
class TellsLate extends KeyedProcessFunction[Row, Row, Row] {
  override def processElement(row: Row, context: Context[Row], out: Collector[Row]): Unit =
    out.collect(Row(row.get(0), context.isLate))
}

/** Emits the key of each row, and has a state that expires by event time. */
class ExpiresByEventTime extends KeyedProcessFunction[Row, Row, Row] {
  override def open(context: OpenContext): Unit = {
    val life = StateTtl.ofMillis(1000).withTimeDomain(TimeDomain.EVENT_TIME)
    context.getState(StateDescriptor.value("n", ScalaSerializers.long).withTtl(life)): Unit
  }

  override def processElement(row: Row, context: Context[Row], out: Collector[Row]): Unit =
    out.collect(Row(row.get(0)))
}
