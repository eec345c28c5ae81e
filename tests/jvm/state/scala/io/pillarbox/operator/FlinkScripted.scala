package io.pillarbox.operator

import java.lang.{Long => JLong}

import scala.jdk.CollectionConverters._

import org.apache.flink.api.common.functions.OpenContext
import org.apache.flink.api.common.state.{
  ListState,
  ListStateDescriptor,
  MapState,
  MapStateDescriptor,
  StateDescriptor,
  StateTtlConfig,
  ValueState,
  ValueStateDescriptor
}
import org.apache.flink.api.common.typeinfo.Types
import org.apache.flink.streaming.api.TimeDomain
import org.apache.flink.streaming.api.functions.{KeyedProcessFunction => FlinkFunction}
import org.apache.flink.streaming.api.operators.{KeyedProcessOperator => FlinkOperator}
import org.apache.flink.streaming.api.{TimerService => FlinkTimers}
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord
import org.apache.flink.streaming.util.KeyedOneInputStreamOperatorTestHarness
import org.apache.flink.util.{Collector => FlinkCollector, OutputTag => FlinkTag}

/** The scripted function over Flink's state and timers. */
final class FlinkScripted(ttl: Option[StateTtlConfig]) extends FlinkFunction[JLong, Row, String] {
  private type Ctx = FlinkFunction[JLong, Row, String]#Context
  private type TimerCtx = FlinkFunction[JLong, Row, String]#OnTimerContext

  @transient private var values: ValueState[String] = _
  @transient private var map: MapState[String, String] = _
  @transient private var elements: ListState[String] = _

  private def withTtl[D <: StateDescriptor[_, _]](descriptor: D): D = {
    ttl.foreach(descriptor.enableTimeToLive)
    descriptor
  }

  override def open(context: OpenContext): Unit = {
    val runtime = getRuntimeContext
    values = runtime.getState(withTtl(new ValueStateDescriptor("value", Types.STRING)))
    map = runtime.getMapState(withTtl(new MapStateDescriptor("map", Types.STRING, Types.STRING)))
    elements = runtime.getListState(withTtl(new ListStateDescriptor("list", Types.STRING)))
  }

  override def processElement(row: Row, context: Ctx, out: FlinkCollector[String]): Unit =
    ScriptedFunction.onRow(row, new FlinkCell(context), out.collect)

  override def onTimer(timestamp: Long, context: TimerCtx, out: FlinkCollector[String]): Unit = {
    val domain = if (context.timeDomain == TimeDomain.EVENT_TIME) "event" else "processing"
    ScriptedFunction
      .onTimer(context.getCurrentKey, domain, timestamp, new FlinkCell(context), out.collect)
  }

  private final class FlinkCell(context: Ctx) extends Cell {
    private val timers: FlinkTimers = context.timerService
    override def side(value: String): Unit = context.output(FlinkScripted.SideTag, value)
    override def value: Option[String] = Option(values.value())
    override def value_=(value: String): Unit = values.update(value)
    override def clear(): Unit = Seq(values, map, elements).foreach(_.clear())
    override def mapPut(key: String, value: String): Unit = map.put(key, value)
    override def mapRemove(key: String): Unit = map.remove(key)
    override def mapGet(key: String): Option[String] = Option(map.get(key))
    override def mapEntries: Seq[(String, String)] =
      Option(map.entries).toSeq.flatMap(_.asScala.map(e => (e.getKey, e.getValue)))
    override def listAdd(value: String): Unit = elements.add(value)
    override def list: Seq[String] = Option(elements.get()).toSeq.flatMap(_.asScala)
    override def registerEvent(time: Long): Unit = timers.registerEventTimeTimer(time)
    override def registerProcessing(time: Long): Unit = timers.registerProcessingTimeTimer(time)
    override def deleteEvent(time: Long): Unit = timers.deleteEventTimeTimer(time)
    override def deleteProcessing(time: Long): Unit = timers.deleteProcessingTimeTimer(time)
  }
}

object FlinkScripted {
  val SideTag: FlinkTag[String] = new FlinkTag[String]("side", Types.STRING)
}

/** Runs scripts on Flink's operator, in Flink's harness. */
final class FlinkSide(ttl: Option[StateTtlConfig]) extends ScriptSide {
  private var harness = newHarness()
  harness.open()
  private var emitted = 0
  private var emittedAside = 0

  private def newHarness() = new KeyedOneInputStreamOperatorTestHarness[JLong, Row, String](
    new FlinkOperator[JLong, Row, String](new FlinkScripted(ttl)),
    (row: Row) => JLong.valueOf(row.key),
    Types.LONG
  )

  override def element(row: Row, timestamp: Long): Unit = harness.processElement(row, timestamp)

  override def watermark(timestamp: Long): Unit =
    harness.processWatermark(new org.apache.flink.streaming.api.watermark.Watermark(timestamp))

  override def clock(timestamp: Long): Unit = {
    harness.setStateTtlProcessingTime(timestamp)
    harness.setProcessingTime(timestamp)
  }

  override def restart(clock: Long): Unit = {
    val snapshot = harness.snapshot(1L, 1L)
    harness.close()
    harness = newHarness()
    emitted = 0
    emittedAside = 0
    harness.setStateTtlProcessingTime(clock)
    harness.initializeState(snapshot)
    harness.open()
    harness.setProcessingTime(clock)
  }

  override def takeRows(): Seq[(String, Option[Long])] = {
    val records = harness.extractOutputStreamRecords.asScala.toVector
    val taken = records.drop(emitted)
    emitted = records.size
    taken.map(seen)
  }

  override def takeSideRows(): Seq[(String, Option[Long])] = {
    val records = Option(harness.getSideOutput(FlinkScripted.SideTag)).toVector.flatMap(_.asScala)
    val taken = records.drop(emittedAside)
    emittedAside = records.size
    taken.map(seen)
  }

  private def seen(record: StreamRecord[_ <: String]): (String, Option[Long]) =
    (record.getValue, if (record.hasTimestamp) Some(record.getTimestamp) else None)

  override def close(): Unit = harness.close()
}
