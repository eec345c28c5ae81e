package io.pillarbox.operator

import io.pillarbox.api.KeyedProcessFunction.{Context, OnTimerContext, OpenContext}
import io.pillarbox.api.{
  Collector,
  KeyedProcessFunction,
  ListState,
  MapState,
  OutputTag,
  ScalaSerializers,
  Serializers,
  StateTtl,
  TimeDomain,
  ValueState
}
import io.pillarbox.state.ScalaHandles._
import io.pillarbox.state._
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.timer.TimerQueues

/** The scripted function over our state and timers. */
final class OurScripted(ttl: Option[StateTtl]) extends KeyedProcessFunction[Long, Row, String] {
  private var values: ValueState[String] = _
  private var map: MapState[String, String] = _
  private var elements: ListState[String] = _

  override def open(context: OpenContext): Unit = {
    values = context.getState(TestState.value("value", Serializers.ofString, ttl))
    map = context.getState(TestState.map("map", Serializers.ofString, Serializers.ofString, ttl))
    elements = context.getState(TestState.list("list", Serializers.ofString, ttl))
  }

  override def processElement(row: Row, context: Context[Long], out: Collector[String]): Unit =
    ScriptedFunction.onRow(row, new OurCell(context), out.collect)

  override def onTimer(timestamp: Long, context: OnTimerContext[Long], out: Collector[String]): Unit = {
    val domain = if (context.timeDomain == TimeDomain.EVENT_TIME) "event" else "processing"
    ScriptedFunction.onTimer(
      context.currentKey,
      domain,
      timestamp,
      new OurCell(context),
      out.collect
    )
  }

  private final class OurCell(context: Context[Long]) extends Cell {
    private val timers = context.timerService
    override def side(value: String): Unit = context.output(OurScripted.SideTag, value)
    override def value: Option[String] = Option(values.value())
    override def value_=(value: String): Unit = values.update(value)
    override def clear(): Unit = Seq(values, map, elements).foreach(_.clear())
    override def mapPut(key: String, value: String): Unit = map.put(key, value)
    override def mapRemove(key: String): Unit = map.remove(key)
    override def mapGet(key: String): Option[String] = Option(map.get(key))
    override def mapEntries: Seq[(String, String)] = map.entries.map(e => (e.getKey, e.getValue)).toVector
    override def listAdd(value: String): Unit = elements.add(value)
    override def list: Seq[String] = elements.get().toVector
    override def registerEvent(time: Long): Unit = timers.registerEventTimeTimer(time)
    override def registerProcessing(time: Long): Unit = timers.registerProcessingTimeTimer(time)
    override def deleteEvent(time: Long): Unit = timers.deleteEventTimeTimer(time)
    override def deleteProcessing(time: Long): Unit = timers.deleteProcessingTimeTimer(time)
  }
}

object OurScripted {
  val SideTag: OutputTag[String] = new OutputTag[String]("side")
}

/**
 * Runs scripts on our operator.
 *
 * @param newBackend its backends are closed by the operator
 */
final class OurSide(
    ttl: Option[StateTtl],
    queues: () => TimerQueues = () => TimerQueues.Heap,
    newBackend: StateClock => KeyedStateBackend[Long] = OurSide.onHeap
) extends ScriptSide {
  private var harness = newHarness(startTime = 0)
  harness.open()

  private def newHarness(startTime: Long) = OneInputOperatorTestHarness[Row, String](
    environment =>
      new KeyedProcessOperator(
        new OurScripted(ttl),
        (row: Row) => row.key,
        newBackend(environment.clock),
        environment.clock,
        environment.processingTime,
        queues()
      ),
    startTime
  )

  override def element(row: Row, timestamp: Long): Unit = harness.processElement(row, timestamp)
  override def watermark(timestamp: Long): Unit = harness.processWatermark(timestamp)
  override def clock(timestamp: Long): Unit = harness.setProcessingTime(timestamp)

  override def restart(clock: Long): Unit = {
    val snapshot = harness.snapshot()
    harness.close()
    harness = newHarness(clock)
    harness.open(snapshot)
  }

  override def takeRows(): Seq[(String, Option[Long])] =
    harness.takeOutput().collect { case OneInputOperatorTestHarness.Record(value, timestamp) =>
      (value, Some(timestamp).filter(_ != Output.NoTimestamp))
    }

  override def takeSideRows(): Seq[(String, Option[Long])] =
    harness.takeSideOutput(OurScripted.SideTag).map { record =>
      (record.value, Some(record.timestamp).filter(_ != Output.NoTimestamp))
    }

  override def close(): Unit = harness.close()
}

object OurSide {
  def onHeap(clock: StateClock): KeyedStateBackend[Long] =
    new HeapKeyedStateBackend(ScalaSerializers.long, clock, sweeps = false)
}

/** An operator that a script is run on. */
trait ScriptSide extends AutoCloseable {
  def element(row: Row, timestamp: Long): Unit
  def watermark(timestamp: Long): Unit
  def clock(timestamp: Long): Unit
  def restart(clock: Long): Unit

  /** Rows emitted since the last call, with their timestamps. */
  def takeRows(): Seq[(String, Option[Long])]

  /** The same of the side output. */
  def takeSideRows(): Seq[(String, Option[Long])]
}
