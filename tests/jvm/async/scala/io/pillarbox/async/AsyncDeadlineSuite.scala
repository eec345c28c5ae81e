package io.pillarbox.async

import java.util

import io.pillarbox.api.{AsyncFunction, AsyncTimeoutException, ResultFuture}
import io.pillarbox.async.AsyncHarness._
import io.pillarbox.async.queue.AsyncOutput
import io.pillarbox.async.retry.AsyncCallException
import org.scalatest.funsuite.AnyFunSuite

class AsyncDeadlineSuite extends AnyFunSuite {
  private val asRow = options().copy(onFailure = FailureAsRow)

  test(
    "an element that is not answered within its total timeout fails through timeout(), and its call is cancelled"
  ) {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 100L))
    h.process("a")
    h.advanceTo(99)
    assert(h.timedOut.isEmpty)
    h.advanceTo(100)
    assert(h.timedOut == Seq("a") && h.cancelled == Seq("a#1"))
    assert(h.emitted == Seq("a=>failed AsyncTimeoutException after 1 in 100"))
    h.future("a").completeOne("late")
    h.runMail()
    assert(h.emitted.size == 1 && h.metrics.timeouts == 1)
  }

  test("by default a timeout fails the task with an error that says total, attempt and milliseconds") {
    val h = new AsyncHarness(options().copy(totalTimeoutMs = 100L))
    h.process("a")
    val error = intercept[AsyncCallException](h.advanceTo(150)).getCause.asInstanceOf[AsyncTimeoutException]
    assert(error.isTotal && error.attempt == 1 && error.elapsedMs == 150)
    assert(error.getMessage.contains("total timeout") && error.getMessage.contains("150 ms"))
  }

  test("timeout() may answer with rows") {
    val h = new AsyncHarness(options().copy(totalTimeoutMs = 100L))
    h.onTimeout = Some((input, future) => future.complete(util.List.of(s"default of $input")))
    h.process("a")
    h.advanceTo(100)
    assert(h.emitted == Seq("a=>default of a"))
  }

  test("a timeout() that answers nothing leaves the element in flight, until an answer comes") {
    val h = new AsyncHarness(options().copy(totalTimeoutMs = 100L, retry = retry(5, 1)))
    h.onTimeout = Some((_, _) => ())
    h.process("a")
    h.advanceTo(100)
    assert(h.emitted.isEmpty && h.cancelled.isEmpty && h.metrics.inFlight == 1)
    h.answer("a")
    assert(h.emitted == Seq("a=>a1") && h.attempts("a") == 1)
  }

  test("a timeout() that throws fails the element with that") {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 100L))
    h.onTimeout = Some((_, _) => throw new ArithmeticException)
    h.process("a")
    h.advanceTo(100)
    assert(h.emitted == Seq("a=>failed ArithmeticException after 1 in 100"))
  }

  test("an answer that came before the deadline wins, though its mail runs after it") {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 100L))
    h.process("a")
    h.time.advanceTo(100)
    h.future("a").completeOne("just in time")
    h.runMail()
    assert(h.timedOut.isEmpty && h.emitted == Seq("a=>just in time"))
  }

  test("the timer of an answered element is cancelled") {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 100L, attemptTimeoutMs = 50L))
    h.process("a")
    assert(h.time.scheduledTimers == 1)
    h.answer("a")
    assert(h.time.scheduledTimers == 0)
  }

  test("without timeouts there is no timer") {
    val h = new AsyncHarness(options())
    h.process("a")
    assert(h.time.scheduledTimers == 0)
  }

  test("an attempt that is not answered in its time is cancelled and counts as a failure") {
    val h = new AsyncHarness(asRow.copy(attemptTimeoutMs = 50L))
    h.process("a", "b")
    h.advanceTo(49)
    h.answer("b")
    h.advanceTo(50)
    assert(h.cancelled == Seq("a#1") && h.timedOut.isEmpty && h.metrics.timeouts == 1)
    assert(h.emitted == Seq("a=>failed AsyncTimeoutException after 1 in 50", "b=>b1"))
  }

  test("a failed attempt's timeout says attempt, number and milliseconds") {
    val h = new AsyncHarness(options().copy(attemptTimeoutMs = 50L, retry = retry(2, 10)))
    h.process("a")
    h.advanceTo(60)
    h.advanceTo(70)
    val error = intercept[AsyncCallException](h.advanceTo(120)).getCause.asInstanceOf[AsyncTimeoutException]
    assert(!error.isTotal && error.attempt == 2 && error.elapsedMs == 50)
    assert(error.getMessage.contains("50 ms. Raise attempt of pb.Timeout, or"))
  }

  test("an attempt's timeout is retried, and a late answer to the abandoned attempt does not count") {
    val h = new AsyncHarness(asRow.copy(attemptTimeoutMs = 50L, retry = retry(3, 10)))
    h.process("a")
    val first = h.future("a")
    h.advanceTo(50)
    h.advanceTo(60)
    assert(h.attempts("a") == 2)
    first.completeOne("from the first attempt")
    h.runMail()
    assert(h.emitted.isEmpty && first.isDone && first.attempt == 1)
    h.answer("a")
    assert(h.emitted == Seq("a=>a1") && h.metrics.retries == 1)
  }

  test("the total deadline spans all attempts and the waits between them") {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 100L, attemptTimeoutMs = 40L, retry = retry(10, 20)))
    h.process("a")
    h.advanceTo(40)
    h.advanceTo(60)
    h.advanceTo(100)
    assert(h.emitted == Seq("a=>failed AsyncTimeoutException after 2 in 100"))
    assert(h.cancelled == Seq("a#1", "a#2"))
    h.advanceTo(1000)
    assert(h.attempts("a") == 2)
  }

  test("FLINK-30477: after a timeout that meets a waiting retry no further attempt is made") {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 100L, retry = retry(10, 70)))
    h.process("a")
    h.advanceTo(40)
    h.fail("a")
    h.advanceTo(100)
    assert(h.timedOut == Seq("a"))
    assert(h.emitted == Seq("a=>failed AsyncTimeoutException after 1 in 100"))
    h.advanceTo(500)
    assert(h.attempts("a") == 1 && h.cancelled.isEmpty)
  }

  test("FLINK-40456: a timeout and a retry due in the same instant: the element is decided, once") {
    for (delay <- Seq(59L, 60L, 61L); ordered <- Seq(true, false)) {
      val h = new AsyncHarness(asRow.copy(ordered = ordered, totalTimeoutMs = 100L, retry = retry(10, delay)))
      h.process("a", "b")
      h.advanceTo(40)
      h.fail("a")
      h.time.advanceTo(100)
      h.future("b").completeOne("b1")
      h.runMail()
      assert(h.emitted.map(_.take(1)).sorted == Seq("a", "b"), s"retry after $delay ms")
      h.advanceTo(1000)
      assert(h.emitted.size == 2 && h.operator.isDrained && h.time.scheduledTimers == 0)
    }
  }

  test(
    "FLINK-40456: a failure that came before the deadline and is handled after it is not retried, nor lost"
  ) {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 100L, retry = retry(10, 10)))
    h.process("a")
    h.time.advanceTo(100)
    h.future("a").completeExceptionally(new ArithmeticException)
    h.runMail()
    assert(h.attempts("a") == 1)
    assert(h.emitted == Seq("a=>failed ArithmeticException after 1 in 100"))
  }

  test("FLINK-38082: what timeout() fails with is not retried") {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 100L, retry = retry(10, 0)))
    h.process("a")
    h.advanceTo(100)
    assert(h.attempts("a") == 1 && h.emitted.size == 1)
  }

  test("a cancel() that throws does not keep the element from being decided") {
    val time = new AsyncHarness(asRow)
    val failing = new AsyncFunction[String, String] {
      override def asyncInvoke(input: String, future: ResultFuture[String]): Unit = ()
      override def cancel(input: String, future: ResultFuture[String]): Unit = throw new ArithmeticException
    }
    var emitted = Seq.empty[String]
    val output = new AsyncOutput[String, String] {
      override def emit(input: String, timestampMs: Long, results: util.Collection[String]): Unit =
        emitted :+= input
    }
    val operator =
      new AsyncWaitOperator(failing, asRow.copy(attemptTimeoutMs = 5L), time.executor, time.time, output)
    operator.processElement("a", 0)
    time.advanceTo(5)
    assert(emitted == Seq("a"))
  }

  test("end of input still waits for deadlines") {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 100L))
    h.process("a")
    h.operator.endInputReached()
    h.advanceTo(100)
    assert(h.operator.isDrained)
  }
}
