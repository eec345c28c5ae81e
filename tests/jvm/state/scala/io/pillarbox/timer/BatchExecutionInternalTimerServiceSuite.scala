package io.pillarbox.timer

import io.pillarbox.api.{Serializers, TimeDomain}
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.{ManualClock, Namespace}
import org.scalatest.funsuite.AnyFunSuite

class BatchExecutionInternalTimerServiceSuite extends AnyFunSuite {
  private val backend =
    new HeapKeyedStateBackend[String](Serializers.ofString, new ManualClock)

  private val kinds = Seq(TimeDomain.EVENT_TIME, TimeDomain.PROCESSING_TIME)

  private def newService() = {
    backend.setCurrentKey("k")
    new BatchExecutionInternalTimerService[String](backend)
  }

  private def polled(
      service: PolledTimerService[String],
      upTo: Long = Long.MaxValue
  ): Seq[(TimeDomain, Long)] =
    kinds.flatMap { kind =>
      Iterator.continually(service.pollDue(kind, upTo)).takeWhile(_ != null).map(t => (kind, t.timestamp))
    }

  test("the timers of the key are polled in the order of time, kind by kind") {
    val service = newService()
    service.startKey("k")
    Seq(5L, 1L, 3L, 1L, Long.MinValue).foreach(service.register(TimeDomain.EVENT_TIME, Namespace.Void, _))
    Seq(4L, 2L).foreach(service.register(TimeDomain.PROCESSING_TIME, Namespace.Void, _))
    service.delete(TimeDomain.EVENT_TIME, Namespace.Void, 3)
    val early = Seq(Long.MinValue, 1L).map((TimeDomain.EVENT_TIME, _))
    assert(polled(service, 1) == early)
    assert(
      polled(service) == Seq((TimeDomain.EVENT_TIME, 5L)) ++ Seq(2L, 4L).map((TimeDomain.PROCESSING_TIME, _))
    )
    assert(polled(service).isEmpty)
  }

  test("what is registered at the end of a key is dropped, and so is what is left of it") {
    val service = newService()
    service.startKey("k")
    Seq(1L, 2L).foreach(service.register(TimeDomain.EVENT_TIME, Namespace.Void, _))
    service.endKey()
    service.register(TimeDomain.EVENT_TIME, Namespace.Void, 10)
    service.register(TimeDomain.PROCESSING_TIME, Namespace.Void, 10)
    service.delete(TimeDomain.EVENT_TIME, Namespace.Void, 2)
    assert(polled(service, 1) == Seq((TimeDomain.EVENT_TIME, 1L)))
    service.dropKey()
    service.startKey("other")
    assert(polled(service).isEmpty && !service.hasKeysToCome)
    service.register(TimeDomain.EVENT_TIME, Namespace.Void, 10)
    assert(polled(service) == Seq((TimeDomain.EVENT_TIME, 10L)))
  }

  test("what is registered before a key starts waits for it, key by key") {
    val service = newService()
    for (name <- Seq("a", "b"); time <- Seq(2L, 1L)) {
      backend.setCurrentKey(name)
      service.register(TimeDomain.EVENT_TIME, Namespace.Void, time)
    }
    backend.setCurrentKey("c")
    service.register(TimeDomain.PROCESSING_TIME, Namespace.Void, 7)
    service.startKey("b")
    assert(
      service.timersOfCurrentKey(TimeDomain.EVENT_TIME).map(t => (t.key, t.timestamp)) == Seq(
        "b" -> 1L,
        "b" -> 2L
      )
    )
    service.dropKey()
    val rest = Iterator
      .continually(service)
      .takeWhile(_.hasKeysToCome)
      .map { service =>
        val next = service.nextKeyToCome
        service.startKey(next)
        val timers = polled(service).map(_._2)
        service.dropKey()
        next -> timers
      }
      .toSeq
    assert(rest.toMap == Map("a" -> Seq(1L, 2L), "c" -> Seq(7L)))
  }

  test("the timers of the key are listed in the order of time") {
    val service = newService()
    service.startKey("k")
    Seq(5L, 1L).foreach(service.register(TimeDomain.EVENT_TIME, Namespace.Void, _))
    service.register(TimeDomain.PROCESSING_TIME, Namespace.Void, 7)
    assert(service.timersOfCurrentKey(TimeDomain.EVENT_TIME).map(_.timestamp) == Seq(1L, 5L))
    assert(service.timersOfCurrentKey(TimeDomain.PROCESSING_TIME).map(_.timestamp) == Seq(7L))
  }
}
