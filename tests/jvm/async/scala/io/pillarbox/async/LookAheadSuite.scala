package io.pillarbox.async

import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.limit._
import org.scalatest.funsuite.AnyFunSuite

/** Elements that the function gets ahead of their turn. */
class LookAheadSuite extends AnyFunSuite {
  private def harness(change: AsyncOptions[String, String] => AsyncOptions[String, String] = identity) =
    new AsyncHarness(
      change(options(ordered = false, capacity = 2).copy(lookAhead = 2, onFailure = FailureAsRow))
    )

  test("the function gets capacity and look-ahead, of which the capacity counts as in flight") {
    val h = harness()
    assert(Seq("a", "b", "c", "d").forall(h.operator.tryProcessElement(_, 0L)))
    assert(!h.operator.tryProcessElement("e", 0L))
    assert(h.calls.size == 4 && h.metrics.inFlight == 2 && h.metrics.calls == 2)
    h.answer("a")
    assert(h.metrics.inFlight == 2 && h.metrics.calls == 3 && h.metrics.inFlightMax == 2)
    assert(h.operator.tryProcessElement("e", 0L) && !h.operator.tryProcessElement("f", 0L))
  }

  test("deadlines count from when an element has its slot, not from when it was given ahead") {
    val h = harness(_.copy(totalTimeoutMs = 100L, attemptTimeoutMs = 100L))
    h.process("a", "b", "c")
    h.advanceTo(60)
    assert(h.future("c").elapsedMs == 0)
    h.answer("a")
    h.advanceTo(100)
    h.advanceTo(159)
    assert(h.emitted == Seq("a=>a1", "b=>failed AsyncTimeoutException after 1 in 100"))
    h.advanceTo(160)
    assert(h.emitted.last == "c=>failed AsyncTimeoutException after 1 in 100" && h.time.scheduledTimers == 0)
  }

  test("an element that waits for a retry keeps its slot, and one that failed for good gives it away") {
    val h = harness(_.copy(retry = retry(2, 10)))
    h.process("a", "b", "c")
    h.fail("a")
    assert(h.metrics.inFlight == 2 && h.metrics.calls == 2 && h.gaveUp.isEmpty)
    h.advanceTo(10)
    assert(h.attempts("a") == 2 && h.metrics.calls == 3)
    h.fail("a")
    assert(h.gaveUp == Seq(0L) && h.metrics.calls == 4 && h.metrics.inFlight == 2)
    h.answer("b", "c")
    assert(h.emitted == Seq("a=>failed RuntimeException after 2 in 10", "b=>b1", "c=>c1"))
  }

  test("the function is told of elements whose total timeout has passed, also between attempts") {
    val h = harness(_.copy(totalTimeoutMs = 100L, retry = retry(9, 200)))
    h.process("a", "b")
    h.fail("b")
    h.advanceTo(100)
    assert(h.gaveUp.toSet == Set(0L, 1L) && h.metrics.inFlight == 0)
  }

  test("a call that can't even be handed over ahead fails as any other") {
    val h = harness()
    h.onInvoke = call => if (call.input == "d") throw new ArithmeticException
    h.process("a", "b", "c", "d")
    h.runMail()
    assert(h.emitted == Seq("d=>failed ArithmeticException after 1 in 0") && h.metrics.inFlight == 2)
    h.answer("a", "b", "c")
    assert(h.emitted.size == 4 && h.metrics.inFlight == 0 && h.operator.isDrained)
  }

  test("elements in line are part of the snapshot, and cancelled by close") {
    val h = harness()
    h.process("a", "b", "c")
    assert(h.snapshot.size == 3)
    h.operator.close()
    assert(h.cancelled == Seq("a#1", "b#1", "c#1") && h.metrics.inFlight == 0)
  }

  test("a look-ahead is refused if it is negative, or behind a limiter") {
    assert(intercept[IllegalArgumentException](options().copy(lookAhead = -1)).getMessage.contains("-1"))
    val gated = options().copy(limiter = TestLimit.ofCalls(1))
    assert(intercept[IllegalArgumentException](gated.copy(lookAhead = 1)).getMessage.contains("limiter"))
  }
}
