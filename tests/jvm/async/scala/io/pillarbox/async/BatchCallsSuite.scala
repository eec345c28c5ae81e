package io.pillarbox.async

import scala.collection.mutable

import io.pillarbox.api.AsyncFunction
import io.pillarbox.async.AsyncHarness._
import io.pillarbox.async.queue.{AsyncOutput, StreamElement}
import io.pillarbox.async.retry.AsyncRetryStrategy
import io.pillarbox.mailbox.MailboxTesting
import io.pillarbox.metered.limit._
import org.scalatest.funsuite.AnyFunSuite

/** Elements that are called together. */
class BatchCallsSuite extends AnyFunSuite {
  private def harness(
      size: Int = 2,
      waitMs: Long = 10L,
      change: AsyncOptions[String, String] => AsyncOptions[String, String] = identity
  ) = new AsyncHarness(
    change(
      options(ordered = false, capacity = 20)
        .copy(batching = Some(Batching(size, waitMs)), onFailure = FailureAsRow)
    )
  )

  test("a group is called when it is full, or when its first element has waited") {
    val h = harness(size = 3)
    h.process("a", "b")
    h.advanceTo(9)
    assert(h.groups.isEmpty)
    h.process("c", "d")
    assert(h.groups == Seq(Seq("a", "b", "c")))
    h.advanceTo(18)
    h.process("e")
    h.advanceTo(19)
    assert(h.groups.last == Seq("d", "e") && h.time.scheduledTimers == 0)
  }

  test("deadlines start with the call: neither company nor a permit that is waited for counts") {
    val limiter = TestLimit.ofCalls(1)
    val h = harness(change = _.copy(limiter = limiter, totalTimeoutMs = 100L, attemptTimeoutMs = 60L))
    h.process("a", "b", "c")
    h.advanceTo(50)
    h.answer("a", "b")
    assert(h.groups == Seq(Seq("a", "b"), Seq("c")))
    h.advanceTo(109)
    assert(h.emitted.size == 2)
    h.advanceTo(110)
    assert(h.emitted.last == "c=>failed AsyncTimeoutException after 1 in 60" && limiter.inUse == 0)
  }

  test("a group holds one permit, from its call until the last of its attempts has ended") {
    val limiter = TestLimit.ofCalls(1)
    val h = harness(size = 3, change = _.copy(limiter = limiter, attemptTimeoutMs = 60L))
    h.process("a", "b", "c", "d", "e", "f")
    h.answer("a")
    h.fail("b")
    assert(h.groups.size == 1 && limiter.inUse == 1)
    h.advanceTo(60)
    assert(h.groups.size == 2 && limiter.inUse == 1)
    h.answer("d", "e", "f")
    assert(limiter.inUse == 0 && h.emitted.size == 6)
  }

  test("an element that is tried again joins a later group, which no answer to its first attempt can touch") {
    val limiter = TestLimit.ofCalls(2)
    val h = harness(change = _.copy(limiter = limiter, retry = retry(3, 0), attemptTimeoutMs = 60L))
    h.process("a", "b")
    val first = h.future("a")
    h.advanceTo(30)
    h.fail("b")
    h.process("c")
    assert(h.groups == Seq(Seq("a", "b"), Seq("b", "c")))
    h.advanceTo(60)
    first.completeOne("late")
    h.runMail()
    assert(h.emitted.isEmpty && limiter.inUse == 1)
    h.process("d")
    assert(h.groups.last == Seq("a", "d") && limiter.inUse == 2)
    h.answer("a", "b", "c", "d")
    assert(h.emitted.toSet == Set("a=>a1", "b=>b1", "c=>c1", "d=>d1") && limiter.inUse == 0)
  }

  test("elements of a group that failed come back together, whatever the jitter") {
    // No two draws have the same wait, and none has none: either would join what came at other times.
    val waits = mutable.Map.empty[Double, Long]
    val backoff = new AsyncRetryStrategy[String] {
      override def canRetry(attempt: Int): Boolean = attempt < 5
      override def backoffMs(attempt: Int, draw: Double): Long =
        waits.getOrElseUpdate(draw, 1000L + waits.size)
      override def retryOnException(error: Throwable): Boolean = true
    }
    val h = harness(size = 4, waitMs = 0L, change = _.copy(retry = backoff))
    val groups = Seq(Seq("a", "b", "c", "d"), Seq("e", "f", "g", "h"))
    h.process(groups.flatten: _*)
    for (attempt <- 2 to 5) {
      groups.foreach(_.foreach(h.fail(_)))
      h.advanceTo(8000L * attempt)
      assert(h.groups.takeRight(2).map(_.sorted).toSet == groups.toSet && h.groups.size == 2 * attempt)
      assert(waits.size == 2 * (attempt - 1), "one draw a group")
    }
  }

  test("a wait that begins a little later than that of others of the group ends with theirs") {
    val h = harness(size = 3, waitMs = 0L, change = _.copy(retry = retry(3, 100)))
    h.process("a", "b", "c")
    h.fail("a")
    h.advanceTo(10)
    h.fail("b")
    h.advanceTo(40)
    h.fail("c")
    h.advanceTo(100)
    assert(h.groups.last.toSet == Set("a", "b"))
    h.advanceTo(129)
    assert(h.groups.size == 2, "a tenth at most is left out")
    h.advanceTo(130)
    assert(h.groups.last == Seq("c"))
  }

  test("elements that are decided while they wait are not called, and a group of such takes no permit") {
    val clock = new ManualLimitClock
    val limiter = TestLimit.ofRate(1, 1000, 1, clock)
    val h = harness(change = _.copy(limiter = limiter, totalTimeoutMs = 100L, retry = retry(9, 10)))
    h.process("a", "b")
    h.fail("a")
    h.fail("b")
    h.process("c")
    h.advanceTo(10)
    assert(h.groups.size == 1, "both groups wait for the next permit")
    h.advanceTo(100)
    assert(h.emitted.size == 2)
    clock.advance(1100)
    h.runMail()
    assert(h.groups.last == Seq("c"))
    h.fail("c")
    h.advanceTo(300)
    assert(h.emitted.size == 3)
    clock.advance(5000)
    assert(clock.pending == 0 && limiter.tryAcquire(() => ()), "nobody is left to spend a permit on")
  }

  test("at the end of the input the last group leaves at once, unless a retry is still to come") {
    val h = harness(size = 3, waitMs = 50L, change = _.copy(retry = retry(2, 20)))
    h.process("a", "b", "c", "d")
    h.fail("a")
    h.operator.endInputReached()
    assert(h.groups.size == 1)
    h.advanceTo(20)
    assert(h.groups.last == Seq("d", "a"))
    h.fail("b")
    h.advanceTo(40)
    assert(h.groups.last == Seq("b"))
    h.answer("a", "b", "c", "d")
    assert(h.operator.isDrained && h.time.scheduledTimers == 0)
    val one = harness(size = 3)
    one.process("a")
    one.operator.endInputReached()
    assert(one.groups == Seq(Seq("a")))
  }

  test("at the end of the input a group whose last retry can't come any more does not wait for it") {
    val h = harness(size = 3, waitMs = 5000L, change = _.copy(totalTimeoutMs = 100L, retry = retry(2, 500)))
    h.process("a", "b", "c", "d")
    h.fail("a")
    h.operator.endInputReached()
    assert(h.groups.size == 1)
    h.advanceTo(100)
    assert(h.groups.last == Seq("d"))
  }

  test("what was restored is called in groups, and the last of them leaves at once if the input has ended") {
    val h = harness(change = _.copy(capacity = 2))
    val elements = java.util.List.of[StreamElement[String, String]](
      StreamElement.Record(0, "a", 0),
      StreamElement.Record(1, "b", 0),
      StreamElement.Record(2, "c", 0)
    )
    h.operator.restore(elements)
    h.operator.endInputReached()
    assert(h.groups == Seq(Seq("a", "b")))
    h.answer("a", "b")
    assert(h.groups.last == Seq("c"))
  }

  test("a call that can't even be made fails each of its elements") {
    val limiter = TestLimit.ofCalls(1)
    val h = harness(change = _.copy(limiter = limiter))
    h.onInvoke = _ => throw new ArithmeticException
    h.process("a", "b")
    h.runMail()
    assert(h.emitted.toSet == Set("a", "b").map(_ + "=>failed ArithmeticException after 1 in 0"))
    assert(limiter.inUse == 0)
  }

  test("close gives the permits of groups back: held, and in line") {
    val limiter = TestLimit.ofCalls(1)
    val h = harness(change = _.copy(limiter = limiter))
    h.process("a", "b", "c", "d", "e")
    h.operator.close()
    h.runMail()
    assert(limiter.inUse == 0 && h.cancelled == Seq("a#1", "b#1") && h.time.scheduledTimers == 0)
  }

  test("attempts that end on many threads give their group's permit back once") {
    val limiter = TestLimit.ofCalls(1)
    val h = harness(size = 16, change = _.copy(limiter = limiter))
    for (round <- 1 to 200) {
      val names = (1 to 16).map(i => s"$round.$i")
      h.process(names: _*)
      h.runMail()
      assert(h.groups.last == names && limiter.inUse == 1)
      val threads = names.grouped(4).map { some =>
        MailboxTesting.start(some.foreach(h.future(_).completeOne("x")))
      }
      threads.toVector.foreach(MailboxTesting.await(_))
      assert(limiter.inUse == 0)
      h.runMail()
      h.calls.clear()
    }
  }

  test("batches are refused without a size, with a look-ahead, and for a function that takes one input") {
    assert(intercept[IllegalArgumentException](Batching(0, 1)).getMessage.contains("not 0"))
    assert(intercept[IllegalArgumentException](Batching(1, -1)).getMessage.contains("-1"))
    val batched = options(ordered = false).copy(batching = Some(Batching(2, 1)))
    assert(intercept[IllegalArgumentException](batched.copy(lookAhead = 1)).getMessage.contains("batches"))
    val h = new AsyncHarness(options())
    val single: AsyncFunction[String, String] = (_, _) => ()
    val output = mutable.Buffer.empty[String]
    val sink = new AsyncOutput[String, String] {
      override def emit(input: String, timestampMs: Long, results: java.util.Collection[String]): Unit =
        output += input
    }
    val refused = intercept[IllegalArgumentException] {
      new AsyncWaitOperator(single, batched, h.executor, h.time, sink)
    }
    assert(refused.getMessage.contains("takes many inputs"))
  }
}
