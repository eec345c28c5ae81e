package io.pillarbox.operator

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import io.pillarbox.api.KeyedProcessFunction.{Context, OnTimerContext, OpenContext}
import io.pillarbox.api.{
  Collector,
  KeyedProcessFunction,
  OutputTag,
  Serializers,
  StateTtl,
  TimeDomain,
  ValueState
}
import io.pillarbox.operator.OneInputOperatorTestHarness.{Record, Watermark}
import io.pillarbox.state._
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.timer.{InternalTimerServiceImpl, TimerQueues}
import org.scalatest.funsuite.AnyFunSuite

class KeyedProcessOperatorSuite extends AnyFunSuite {
  private type Event = (String, Int)
  private val late = new OutputTag[String]("late")

  /** Counts per key; emits the count when a timer ten behind the last row fires. */
  private class Counting(ttl: Option[StateTtl] = None) extends KeyedProcessFunction[String, Event, String] {
    private var count: ValueState[String] = _
    var closed = false

    override def open(context: OpenContext): Unit =
      count = context.getState(TestState.value("count", Serializers.ofString, ttl))

    override def processElement(event: Event, context: Context[String], out: Collector[String]): Unit = {
      val timers = context.timerService
      count.update((Option(count.value()).fold(0)(_.toInt) + event._2).toString)
      if (context.timestamp <= timers.currentWatermark) context.output(late, context.currentKey)
      timers.eventTimeTimers.forEach(timers.deleteEventTimeTimer(_))
      timers.registerEventTimeTimer(context.timestamp + 10)
      timers.registerProcessingTimeTimer(timers.currentProcessingTime + 100)
      out.collect(s"${event._1}+${event._2}")
    }

    override def onTimer(timestamp: Long, context: OnTimerContext[String], out: Collector[String]): Unit = {
      out.collect(s"${context.currentKey}=${count.value()} ${context.timeDomain} ${context.timestamp}")
      if (context.timeDomain == TimeDomain.PROCESSING_TIME) context.output(late, "slow")
    }

    override def close(): Unit = closed = true
  }

  private def backend(environment: OperatorEnvironment) =
    new HeapKeyedStateBackend(Serializers.ofString, environment.clock)

  private def newHarness(function: Counting = new Counting) =
    OneInputOperatorTestHarness[Event, String](environment =>
      new KeyedProcessOperator(
        function,
        (event: Event) => event._1,
        backend(environment),
        environment.clock,
        environment.processingTime,
        trackTimerChanges = true
      )
    )

  test("a timer that an earlier function has left fails a function that has no timers") {
    val clock = new EventClock
    val keys = new HeapKeyedStateBackend(Serializers.ofString, clock)
    val timers = new InternalTimerServiceImpl[String](keys, TimerQueues.Heap, false)
    keys.setCurrentKey("a")
    timers.register(TimeDomain.EVENT_TIME, Namespace.Void, 5L)
    val states = new FunctionStates[String]("keyed", keys, identity)
    val output: Output[String] = new Output[String] {
      override def collect(value: String, timestamp: Long): Unit = fail(value)
      override def collect[X](tag: OutputTag[X], value: X, timestamp: Long): Unit = fail(tag.toString)
      override def fired(kind: TimeDomain): Unit = fail("nobody handles it")
      override def emitWatermark(timestamp: Long): Unit = ()
    }
    val view = new PlainView[String, Event](_._1)
    val refusal = Some(() => new IllegalStateException("without onTimer"))
    val target = new FunctionTarget(new Counting, states, keys, timers, clock, output, view, refusal)
    val left = timers.timersOfCurrentKey(TimeDomain.EVENT_TIME).head
    assert(intercept[IllegalStateException](target.takeTimer(left, 5L)).getMessage == "without onTimer")
  }

  test("timers and output used from another thread are errors, and change nothing") {
    val failures = scala.collection.mutable.ArrayBuffer.empty[Throwable]
    val function = new Counting {
      override def processElement(event: Event, context: Context[String], out: Collector[String]): Unit = {
        val timers = context.timerService
        Seq[() => Unit](
          () => timers.registerEventTimeTimer(7),
          () => timers.registerProcessingTimeTimer(7),
          () => timers.deleteEventTimeTimer(7),
          () => timers.deleteProcessingTimeTimer(7),
          () => timers.eventTimeTimers: Unit,
          () => timers.deleteAllTimers(): Unit,
          () => out.collect("elsewhere"),
          () => context.output(late, "elsewhere")
        ).foreach { use =>
          val other = new Thread(() => failures += intercept[StateAccessException](use()), "intruder")
          other.start()
          other.join()
        }
        assert(timers.eventTimeTimers.isEmpty && timers.processingTimeTimers.isEmpty)
      }
    }
    val harness = newHarness(function)
    harness.open()
    harness.processElement(("a", 1), 1)
    assert(harness.takeOutput().isEmpty)
    assert(failures.size == 8 && failures.forall(_.getMessage.contains("intruder")))
    harness.close()
  }

  test("a function's states have no names that checkpoints use for something else") {
    val function = new Counting {
      override def open(context: OpenContext): Unit = {
        super.open(context)
        context.getState(TestState.value(WaitingRows.StateName, Serializers.ofString)): Unit
      }
    }
    val refused = intercept[IllegalArgumentException](newHarness(function).open())
    assert(refused.getMessage.contains(s"'${WaitingRows.StateName}'"))
  }

  test("a listener of expired values is told the key as the function sees it") {
    val clock = new ManualClock
    val backend = new HeapKeyedStateBackend(Serializers.ofString, clock)
    val told = scala.collection.mutable.ArrayBuffer.empty[(Any, Any)]
    val descriptor = TestState
      .value("v", Serializers.ofString, Some(StateTtl.ofMillis(10)))
      .withExpiryListener((key, _, value) => told += key -> value)
    val state = new FunctionStates[String]("keyed", backend, key => s"shown $key").getState(descriptor)
    backend.setCurrentKey("a")
    state.update("1")
    clock.processingTime += 10
    assert(state.value() == null && told == Seq("shown a" -> "1"))
  }

  test("rows, timers and watermarks leave in order, with their timestamps") {
    val harness = newHarness()
    harness.open()
    harness.processElement(("a", 1), 5)
    harness.processElement(("b", 2), 6)
    harness.processElement(("a", 3), 7)
    harness.processWatermark(15)
    harness.processWatermark(17)
    val expected = Seq(
      Record("a+1", 5L),
      Record("b+2", 6L),
      Record("a+3", 7L),
      Watermark(15),
      Record("b=2 EVENT_TIME 16", 16L),
      Record("a=4 EVENT_TIME 17", 17L),
      Watermark(17)
    )
    assert(harness.takeOutput() == expected)
    harness.close()
  }

  test("rows of processing-time timers have no timestamp, their side output has the timer's") {
    val harness = newHarness()
    harness.open()
    harness.processElement(("a", 1), 5)
    harness.takeOutput()
    harness.setProcessingTime(100)
    assert(harness.takeOutput() == Seq(Record("a=1 PROCESSING_TIME 100", Output.NoTimestamp)))
    assert(harness.takeSideOutput(late) == Seq(Record("slow", 100L)))
    assert(harness.takeSideOutput(late).isEmpty)
    harness.close()
  }

  test("the function sees the watermark, so it can tell late rows") {
    val harness = newHarness()
    harness.open()
    harness.processWatermark(50)
    harness.processElement(("a", 1), 50)
    harness.processElement(("b", 1), 51)
    assert(harness.takeSideOutput(late) == Seq(Record("a", 50L)))
    harness.close()
  }

  test("a restored operator goes on with state, timers and watermark") {
    val harness = newHarness()
    harness.open()
    harness.processElement(("a", 5), 1)
    harness.processWatermark(3)
    val snapshot = harness.snapshot()
    harness.close()
    val restored = newHarness()
    restored.open(snapshot)
    restored.processElement(("a", 1), 2)
    assert(restored.takeSideOutput(late) == Seq(Record("a", 2L)))
    restored.processWatermark(20)
    assert(restored.takeRows() == Seq("a+1", "a=6 EVENT_TIME 12"))
    restored.setProcessingTime(100)
    assert(restored.takeRows() == Seq("a=6 PROCESSING_TIME 100"))
    restored.close()
  }

  test("a snapshot and the commits after it restore state and timers together") {
    val harness = newHarness()
    harness.open()
    val operator = harness.operator.asInstanceOf[KeyedProcessOperator[String, Event, String]]
    def written(write: (ByteArrayOutputStream, ByteArrayOutputStream) => Unit) = {
      val (state, timers) = (new ByteArrayOutputStream, new ByteArrayOutputStream)
      write(state, timers)
      (state.toByteArray, timers.toByteArray)
    }
    harness.processElement(("a", 1), 1)
    var logs = Seq(written(operator.commit(_, _)))
    harness.processElement(("b", 1), 2)
    harness.processWatermark(11)
    logs :+= written(operator.commit(_, _))
    harness.close()
    val restored = newHarness()
    val target = restored.operator.asInstanceOf[KeyedProcessOperator[String, Event, String]]
    logs.foreach { case (state, timers) =>
      target.restore(new ByteArrayInputStream(state), new ByteArrayInputStream(timers), "log")
    }
    restored.open()
    restored.processWatermark(100)
    assert(restored.takeRows() == Seq("b=1 EVENT_TIME 12"))
    restored.close()
  }

  test("state with event-time TTL and event-time timers work together") {
    val ttl = TestState.ttl(10, timeDomain = TimeDomain.EVENT_TIME)
    val harness = newHarness(new Counting(Some(ttl)))
    harness.open()
    harness.processElement(("a", 5), 1)
    harness.processWatermark(10)
    harness.processElement(("a", 5), 10)
    harness.processWatermark(19)
    harness.processElement(("b", 1), 19)
    harness.processElement(("a", 5), 19)
    harness.processWatermark(40)
    val timers = harness.takeRows().filter(_.contains("="))
    // The state of each key lives until ten after its last row, which is when its timer fires: gone by then.
    assert(timers.toSet == Set("a=null EVENT_TIME 29", "b=null EVENT_TIME 29"))
    harness.close()
  }

  test("closing closes the function and the backend") {
    val function = new Counting
    val harness = newHarness(function)
    harness.open()
    harness.processElement(("a", 1), 1)
    harness.close()
    assert(function.closed)
    assertThrows[StateAccessException](harness.operator.processElement(("a", 1), 1))
  }

  private def batchHarness(function: KeyedProcessFunction[String, Event, String]) =
    OneInputOperatorTestHarness[Event, String](environment =>
      new BatchKeyedProcessOperator(
        function,
        (event: Event) => event._1,
        backend(environment),
        environment.clock,
        environment.processingTime
      )
    )

  test("in a batch all rows of a key come before its timers, and those before the next key") {
    val harness = batchHarness(new Counting)
    harness.open()
    Seq(("a", 1), ("a", 2), ("b", 5)).foreach(event => harness.processElement(event, event._2.toLong))
    harness.processWatermark(1000)
    assert(
      harness.takeRows() ==
        Seq("a+1", "a+2", "a=3 EVENT_TIME 12", "a=3 PROCESSING_TIME 100", "b+5")
    )
    harness.endInput()
    assert(harness.takeRows() == Seq("b=5 EVENT_TIME 15", "b=5 PROCESSING_TIME 100"))
    harness.endInput()
    assert(harness.takeRows().isEmpty)
    harness.close()
  }

  test("in a batch the state of a key is dropped when the next key comes") {
    val harness = batchHarness(new Counting)
    harness.open()
    Seq("a", "b", "a").foreach(key => harness.processElement((key, 1), 1))
    harness.endInput()
    assert(
      harness.takeRows().filter(_.contains("EVENT_TIME")) == Seq("a=1", "b=1", "a=1").map(
        _ + " EVENT_TIME 11"
      )
    )
    harness.close()
  }

  test("a batch takes no snapshot and says why") {
    val harness = batchHarness(new Counting)
    harness.open()
    assert(intercept[UnsupportedOperationException](harness.snapshot()).getMessage.contains("starts over"))
    assertThrows[UnsupportedOperationException](
      batchHarness(new Counting).open(OperatorSnapshot(null, null, 0))
    )
    harness.close()
  }
}
