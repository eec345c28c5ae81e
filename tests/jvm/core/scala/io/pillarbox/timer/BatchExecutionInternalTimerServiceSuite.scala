package io.pillarbox.timer

import scala.collection.mutable

import io.pillarbox.state.Namespace
import io.pillarbox.state.serialization.Serializers
import org.scalatest.funsuite.AnyFunSuite

class BatchExecutionInternalTimerServiceSuite
    extends AnyFunSuite
    with KeyContext[String]
    with Triggerable[String] {
  override def currentKey: String = "k"
  override def setCurrentKey(key: String): Unit = fail("a batch has one key at a time")
  override def onEventTime(timer: Timer[String]): Unit = fire(timer)
  override def onProcessingTime(timer: Timer[String]): Unit = fire(timer)

  private val fired = mutable.ArrayBuffer.empty[(TimerKind, Long)]
  private var onTimer: () => Unit = () => ()

  private def fire(timer: Timer[String]): Unit = {
    fired += ((timer.kind, timer.timestamp))
    onTimer()
  }

  private def newService() = {
    fired.clear()
    onTimer = () => ()
    new BatchExecutionInternalTimerService[String](Serializers.string, this, this, () => 123L)
  }

  test("at the end of a key its event-time timers fire in order, then its processing-time timers") {
    val service = newService()
    Seq(5L, 1L, 3L, 1L).foreach(service.registerEventTimeTimer(Namespace.Void, _))
    Seq(4L, 2L).foreach(service.registerProcessingTimeTimer(Namespace.Void, _))
    service.deleteEventTimeTimer(Namespace.Void, 3)
    service.finishKey()
    val expected = Seq(1L, 5L).map((TimerKind.EventTime, _)) ++ Seq(2L, 4L).map((TimerKind.ProcessingTime, _))
    assert(fired == expected)
    service.finishKey()
    assert(fired.size == 4)
  }

  test("the watermark is at its end while timers fire, and what they register is dropped") {
    val service = newService()
    assert(service.currentWatermark == Long.MinValue && service.currentProcessingTime == 123)
    onTimer = () => {
      assert(service.currentWatermark == Long.MaxValue)
      service.registerEventTimeTimer(Namespace.Void, 10)
      service.registerProcessingTimeTimer(Namespace.Void, 10)
    }
    service.registerEventTimeTimer(Namespace.Void, 1)
    service.finishKey()
    assert(fired.size == 1 && service.currentWatermark == Long.MinValue)
    service.finishKey()
    assert(fired.size == 1)
  }

  test("the timers of the key are listed and deleted") {
    val service = newService()
    Seq(5L, 1L).foreach(service.registerEventTimeTimer(Namespace.Void, _))
    service.registerProcessingTimeTimer(Namespace.Void, 7)
    assert(service.timersOfCurrentKey(TimerKind.EventTime).map(_.timestamp) == Seq(1L, 5L))
    assert(service.deleteTimersOfCurrentKey() == 3)
    service.finishKey()
    assert(fired.isEmpty)
  }
}
