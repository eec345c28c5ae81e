package io.pillarbox.async

import java.util.concurrent.{CompletionException, ExecutionException}
import java.util.{Collection => JCollection}

import io.pillarbox.api.{NotRetryable, RetryAfter}
import io.pillarbox.async.AsyncHarness._
import io.pillarbox.async.retry.{AsyncRetryStrategies, FailedCall, FailurePolicy}
import org.scalatest.funsuite.AnyFunSuite

class AsyncRetrySuite extends AnyFunSuite {
  private val asRow = options().copy(onFailure = FailureAsRow)

  test("a failed attempt is repeated after its delay, with the same element id and the next attempt number") {
    val h =
      new AsyncHarness(asRow.copy(retry = retry(3, 10), callId = (input, id, _) => s"id of $input $id"))
    h.process("a")
    h.fail("a")
    h.advanceTo(9)
    assert(h.attempts("a") == 1)
    h.advanceTo(10)
    assert(h.calls.map(c => (c.attempt, c.future.elementId)) == Seq((1, 0L), (2, 0L)))
    assert(h.calls.map(_.future.callId) == Seq("id of a 0", "id of a 0"))
    h.answer("a")
    assert(
      h.emitted == Seq("a=>a1") && h.metrics.retries == 1 && h.metrics.calls == 2 && h.metrics.errors == 0
    )
  }

  test("a retry that does not begin before the total deadline is not counted") {
    val h = new AsyncHarness(asRow.copy(totalTimeoutMs = 50L, retry = retry(3, 40)))
    h.process("a")
    h.fail("a")
    h.advanceTo(40)
    assert(h.metrics.retries == 1)
    h.fail("a")
    h.advanceTo(60)
    assert(h.emitted.size == 1 && h.metrics.calls == 2 && h.metrics.retries == 1)
  }

  test("after the last attempt the failure stands, with the number of attempts and the time they took") {
    val h = new AsyncHarness(asRow.copy(retry = retry(3, 10)))
    h.process("a")
    Seq(10L, 20L).foreach { ms =>
      h.fail("a")
      h.advanceTo(ms)
    }
    h.fail("a")
    assert(h.emitted == Seq("a=>failed RuntimeException after 3 in 20"))
    assert(h.metrics.errors == 1 && h.metrics.retries == 2)
  }

  test("the policy notes each attempt that is made again, with its own cause, and not the last one") {
    val noted = Seq.newBuilder[String]
    val notes = new FailurePolicy[String, String] {
      override def onFailure(call: FailedCall[String], cause: Throwable): JCollection[String] =
        FailureAsRow.onFailure(call, cause)
      override def onRetry(input: String, attempt: Int, cause: Throwable): Unit =
        noted += s"$input $attempt ${cause.getClass.getSimpleName}"
    }
    val h = new AsyncHarness(asRow.copy(retry = retry(3, 10), onFailure = notes))
    h.process("a", "b")
    h.fail("a", new CompletionException(new java.io.IOException))
    h.fail("b", new java.io.IOException with NotRetryable)
    h.advanceTo(10)
    h.fail("a", new ArithmeticException)
    h.advanceTo(20)
    h.fail("a")
    assert(h.emitted.size == 2)
    assert(noted.result() == Seq("a 1 IOException", "a 2 ArithmeticException"))
  }

  test("a waiting retry holds its slot and counts toward the capacity") {
    val h = new AsyncHarness(asRow.copy(capacity = 2, retry = retry(3, 10)))
    h.process("a", "b")
    h.fail("a")
    h.answer("b")
    assert(h.emitted.isEmpty && !h.operator.hasCapacity && h.metrics.inFlight == 1)
    assert(h.snapshot.size == 2)
    h.advanceTo(10)
    h.answer("a")
    assert(h.emitted == Seq("a=>a1", "b=>b1"))
  }

  test("several completions of one attempt cause one retry") {
    val h = new AsyncHarness(asRow.copy(retry = retry(5, 10)))
    h.process("a")
    val first = h.future("a")
    first.completeExceptionally(new RuntimeException)
    first.completeExceptionally(new RuntimeException)
    h.runMail()
    first.completeExceptionally(new RuntimeException)
    h.advanceTo(10)
    first.completeExceptionally(new RuntimeException)
    h.advanceTo(20)
    assert(h.attempts("a") == 2)
  }

  test("the predicate on exceptions decides, and an exception that is not retryable is not retried") {
    val onlyIo = retry(5, 10).ifException(_.isInstanceOf[java.io.IOException])
    val h = new AsyncHarness(asRow.copy(retry = onlyIo))
    h.process("a", "b", "c")
    h.fail("a", new ArithmeticException)
    assert(h.emitted == Seq("a=>failed ArithmeticException after 1 in 0"))
    h.fail("b", new java.io.IOException with NotRetryable)
    assert(h.emitted.size == 2)
    h.fail("c", new java.io.IOException)
    h.advanceTo(10)
    assert(h.attempts("c") == 2)
  }

  test("what futures wrap a failure in is looked through: whether it is retried, and when") {
    def wrapped(failure: Throwable) = new CompletionException(new ExecutionException(failure))
    val onlyIo = retry(5, 10).ifException(_.isInstanceOf[java.io.IOException])
    val h = new AsyncHarness(asRow.copy(retry = onlyIo))
    h.process("a", "b", "c")
    h.fail("a", wrapped(new java.io.IOException with NotRetryable))
    assert(h.attempts("a") == 1 && h.emitted == Seq("a=>failed CompletionException after 1 in 0"))
    h.fail(
      "b",
      wrapped(new java.io.IOException with RetryAfter {
        override def retryAfterMs: Long = 500
      })
    )
    h.fail("c", wrapped(new java.io.IOException))
    h.advanceTo(10)
    assert(h.attempts("b") == 1 && h.attempts("c") == 2)
    h.advanceTo(500)
    assert(h.attempts("b") == 2)
  }

  test("a failure that can't say its delay fails its own call and no other") {
    val h = new AsyncHarness(asRow.copy(retry = retry(5, 10)))
    h.process("a", "b")
    h.fail(
      "a",
      new RuntimeException with RetryAfter {
        override def retryAfterMs: Long = throw new ArithmeticException("no date")
      }
    )
    h.answer("b")
    assert(h.emitted == Seq("a=>failed ArithmeticException after 1 in 0", "b=>b1"))
  }

  test("a failure that carries its own delay is obeyed, however long or short") {
    def after(ms: Long): Throwable = new RuntimeException with RetryAfter {
      override def retryAfterMs: Long = ms
    }
    val h = new AsyncHarness(asRow.copy(retry = retry(9, 10)))
    h.process("a")
    h.fail("a", after(500))
    h.advanceTo(499)
    assert(h.attempts("a") == 1)
    h.advanceTo(500)
    assert(h.attempts("a") == 2)
    h.fail("a", after(0))
    assert(h.attempts("a") == 3)
    h.fail("a", after(-7))
    assert(h.attempts("a") == 4)
    h.fail("a", after(Long.MaxValue))
    h.advanceTo(Long.MaxValue / 2000000)
    assert(h.attempts("a") == 4 && h.metrics.inFlight == 1)
  }

  test("at the end of input waiting retries are tried to their end, each after its delay") {
    val h = new AsyncHarness(asRow.copy(retry = retry(3, 10)))
    h.process("a")
    h.fail("a")
    h.operator.endInputReached()
    assert(h.attempts("a") == 1)
    h.advanceTo(10)
    assert(h.attempts("a") == 2)
    h.fail("a")
    h.advanceTo(20)
    h.answer("a")
    assert(h.emitted == Seq("a=>a1") && h.operator.isDrained)
  }

  test("at the end of input an attempt that is running is not made again (Flink makes it once more)") {
    val h = new AsyncHarness(asRow.copy(retry = retry(5, 10)))
    h.process("a")
    h.fail("a")
    h.advanceTo(10)
    h.operator.endInputReached()
    h.answer("a")
    assert(h.attempts("a") == 2 && h.emitted == Seq("a=>a1"))
  }

  test("a restored element starts its attempts anew") {
    val h = new AsyncHarness(asRow.copy(retry = retry(2, 10)))
    h.process("a")
    h.fail("a")
    h.advanceTo(10)
    val later = new AsyncHarness(asRow.copy(retry = retry(2, 10)))
    later.operator.restore(h.operator.snapshotState())
    assert(later.calls.map(_.attempt) == Seq(1))
    later.fail("a")
    later.advanceTo(10)
    assert(later.attempts("a") == 2 && later.future("a").elementId == 0)
  }

  test("exponential backoff grows by its factor up to the cap, far out too") {
    val backoff = AsyncRetryStrategies.exponentialBackoff[String](2000, 100, 1500, 2.0, 0.0)
    assert((1 to 6).map(backoff.backoffMs(_, 0.9)) == Seq(100, 200, 400, 800, 1500, 1500))
    assert(backoff.backoffMs(1999, 0.9) == 1500 && backoff.canRetry(1999) && !backoff.canRetry(2000))
  }

  test("jitter moves the backoff by at most its share, up or down") {
    val backoff = AsyncRetryStrategies.exponentialBackoff[String](5, 100, 1000, 2.0, 0.5)
    assert(Seq(0.0, 0.25, 0.5, 0.75).map(backoff.backoffMs(1, _)) == Seq(50, 75, 100, 125))
    assert(backoff.backoffMs(9, 0.75) == 1250)
  }

  test("elements that are called alone and fail together come back apart") {
    val h = new AsyncHarness(
      asRow.copy(retry = AsyncRetryStrategies.exponentialBackoff(2, 1000, 1000, 1.0, 1.0))
    )
    val names = (1 to 8).map(i => s"a$i")
    h.process(names: _*)
    names.foreach(h.fail(_))
    val returned = (1 to 2000).map { ms =>
      h.advanceTo(ms.toLong)
      h.calls.size
    }
    assert(returned.distinct.size > 2 && h.calls.size == 16)
  }

  test("an attempt that lasts long is found once, and its age is known meanwhile") {
    val h = new AsyncHarness(asRow.copy(retry = retry(2, 30)))
    h.process("a")
    h.advanceTo(40)
    h.process("b")
    assert(h.operator.longCalls(60).isEmpty && h.metrics.oldestCallMs == 40)
    h.advanceTo(59)
    h.fail("a")
    assert(h.operator.longCalls(60).isEmpty && h.metrics.oldestCallMs == 19)
    assert(h.metrics.waiting == 1, "a backs off")
    h.advanceTo(89)
    h.advanceTo(200)
    assert(h.operator.longCalls(60).contains(LongCalls("b", 1, 160, "1", 2)))
    assert(h.operator.longCalls(60).isEmpty && h.metrics.oldestCallMs == 160)
    h.answer("b")
    assert(h.operator.longCalls(60).isEmpty && h.metrics.oldestCallMs == 111)
    h.answer("a")
    assert(h.operator.longCalls(60).isEmpty && h.metrics.oldestCallMs == 0)
  }

  test("no retry means one attempt") {
    val h = new AsyncHarness(asRow)
    h.process("a")
    h.fail("a")
    h.advanceTo(1000)
    assert(h.attempts("a") == 1 && !AsyncRetryStrategies.noRetry[String].canRetry(1))
  }

  test("strategies refuse values out of range, with the value") {
    def refused(make: => Any): String = intercept[IllegalArgumentException](make).getMessage
    assert(refused(AsyncRetryStrategies.exponentialBackoff(0, 1, 1, 1.0, 0.0)).contains("not 0"))
    assert(refused(AsyncRetryStrategies.exponentialBackoff(1, -1, -1, 1.0, 0.0)).contains("-1 ms"))
    assert(refused(AsyncRetryStrategies.exponentialBackoff(1, 10, 5, 1.0, 0.0)).contains("5 ms"))
    assert(refused(AsyncRetryStrategies.exponentialBackoff(1, 1, 5, 0.5, 0.0)).contains("0.5"))
    assert(refused(AsyncRetryStrategies.exponentialBackoff(1, 1, 5, 1.0, 1.5)).contains("1.5"))
  }
}
