package io.pillarbox.async

import java.util

import io.pillarbox.api.ResultFuture
import io.pillarbox.async.AsyncHarness._
import io.pillarbox.async.queue.StreamElement.{Answered, Record}
import io.pillarbox.async.queue.{AsyncOutput, StreamElement}
import io.pillarbox.async.retry.AsyncCallException
import io.pillarbox.mailbox.MailboxExecutor
import org.scalatest.funsuite.AnyFunSuite

class AsyncWaitOperatorSuite extends AnyFunSuite {

  test("ordered: rows leave in the order of their inputs, whatever the order of the answers") {
    val h = new AsyncHarness(options())
    h.process("a", "b", "c")
    h.answer("c", "b")
    assert(h.emitted.isEmpty)
    h.answer("a")
    assert(h.emitted == Seq("a=>a1", "b=>b1", "c=>c1"))
  }

  test("unordered: rows leave as answers come") {
    val h = new AsyncHarness(options(ordered = false))
    h.process("a", "b", "c")
    h.answer("c", "b")
    assert(h.emitted == Seq("c=>c1", "b=>b1"))
    h.answer("a")
    assert(h.emitted == Seq("c=>c1", "b=>b1", "a=>a1"))
  }

  test("an answer of no rows emits none and frees the place; many rows leave together") {
    val h = new AsyncHarness(options(capacity = 2))
    h.process("a", "b")
    h.future("a").complete(util.List.of())
    h.future("b").complete(util.List.of("x", "y"))
    h.runMail()
    assert(h.emitted == Seq("a=>", "b=>x,y") && h.operator.isDrained)
  }

  test("the first completion wins, later ones are ignored") {
    val h = new AsyncHarness(options())
    h.process("a")
    h.future("a").completeOne("first")
    h.future("a").completeOne("second")
    h.future("a").completeExceptionally(new RuntimeException)
    h.future("a").complete(util.List.of("third"))
    h.runMail()
    h.future("a").completeOne("late")
    h.runMail()
    assert(h.emitted == Seq("a=>first"))
  }

  test("null as answer is a failure of the call that names element and attempt") {
    val answers = Seq[ResultFuture[String] => Unit](
      _.complete(null),
      _.completeOne(null),
      _.completeExceptionally(null)
    )
    for (answer <- answers) {
      val h = new AsyncHarness(options())
      h.process("a")
      answer(h.future("a"))
      val error = intercept[AsyncCallException](h.runMail())
      assert(error.getCause.isInstanceOf[NullPointerException])
      assert(error.getCause.getMessage.contains("element 0, attempt 1"))
    }
  }

  test("many completions cost one mail, and a mail emits a bounded number of elements") {
    val many = AsyncWaitOperator.EmitPerMail * 2 + 10
    val h = new AsyncHarness(options(capacity = many))
    val inputs = (1 to many).map(_.toString)
    h.process(inputs: _*)
    inputs.foreach(input => h.future(input).completeOne(input))
    assert(h.mailbox.size == 1)
    h.executor.yieldMail()
    assert(h.emitted.size == AsyncWaitOperator.EmitPerMail)
    assert(h.mailbox.size == 1)
    h.future(inputs.head).completeOne("again")
    h.executor.yieldMail()
    h.executor.yieldMail()
    assert(h.emitted.size == many && !h.mailbox.hasMail)
  }

  test(
    "a batch of completions costs one mail; the first completion wins at its call, the effect follows flush"
  ) {
    val h = new AsyncHarness(options())
    h.process("a", "b", "c", "d")
    h.future("b").completeOne("before the batch")
    val batch = h.operator.completionBatch()
    batch.completeOne(h.future("a"), "one")
    batch.completeOne(h.future("b"), "too late")
    batch.complete(h.future("c"), util.List.of("x", "y"))
    h.future("a").completeOne("after the batch")
    h.runMail()
    assert(h.emitted.isEmpty)
    batch.flush()
    batch.flush()
    assert(h.mailbox.size == 1)
    h.runMail()
    assert(h.emitted == Seq("a=>one", "b=>before the batch", "c=>x,y"))
    batch.completeExceptionally(h.future("d"), new RuntimeException("no"))
    batch.flush()
    assert(intercept[AsyncCallException](h.runMail()).getCause.getMessage == "no")
  }

  test("a batch refuses futures of another operator") {
    val h = new AsyncHarness(options())
    val other = new AsyncHarness(options())
    other.process("a")
    intercept[IllegalArgumentException](h.operator.completionBatch().completeOne(other.future("a"), "x"))
  }

  test("a full operator refuses without blocking, and says once when there is room") {
    val h = new AsyncHarness(options(capacity = 2))
    var told = 0
    h.operator.onCapacityAvailable(() => {
      told += 1
      assert(h.operator.hasCapacity)
    })
    assert(h.operator.tryProcessElement("a", 0) && h.operator.tryProcessElement("b", 0))
    assert(!h.operator.hasCapacity && !h.operator.tryProcessElement("c", 0))
    h.answer("b")
    assert(told == 0, "b is done and not emitted: it still takes its place")
    h.answer("a")
    assert(told == 1 && h.operator.tryProcessElement("c", 0))
    h.answer("c")
    assert(told == 1 && h.emitted == Seq("a=>a1", "b=>b1", "c=>c1"))
  }

  test("processElement waits for room by running mail, and counts the time") {
    val h = new AsyncHarness(options(capacity = 1))
    h.process("a")
    h.executor.execute(() => h.future("a").completeOne("a1"), "answer")
    h.process("b")
    assert(h.emitted == Seq("a=>a1") && h.attempts("b") == 1)
    assert(h.metrics.capacityWaitNanos > 0)
  }

  test("with room to wait, the capacity bounds calls under way alone") {
    val h = new AsyncHarness(options(capacity = 2).copy(maxWaiting = 4))
    h.process("a", "b")
    assert(!h.operator.tryProcessElement("c", 0), "two calls are under way")
    h.answer("b")
    assert(h.operator.tryProcessElement("c", 0), "b is done and waits for a")
    h.answer("c")
    assert(h.operator.tryProcessElement("d", 0))
    h.answer("d")
    assert(!h.operator.tryProcessElement("e", 0), "four wait for a place in the order")
    var told = 0
    h.operator.onCapacityAvailable(() => told += 1)
    h.answer("a")
    assert(told == 1 && h.emitted == Seq("a=>a1", "b=>b1", "c=>c1", "d=>d1"))
  }

  test("a snapshot keeps answers that wait for their turn, and the oldest element tells its time") {
    val h = new AsyncHarness(options())
    assert(h.operator.oldestTimestampMs == Long.MaxValue)
    assert(h.operator.tryProcessElement("a", 5) && h.operator.tryProcessElement("b", 7))
    h.answer("b")
    assert(h.snapshot == Seq(Record(0, "a", 5), Answered(1, "b", 7, java.util.List.of("b1"))))
    assert(h.operator.oldestTimestampMs == 5)
    val later = new AsyncHarness(options())
    later.operator.restore(h.operator.snapshotState())
    later.answer("a")
    assert(later.emitted == Seq("a=>a1", "b=>b1") && later.calls.map(_.input) == Seq("a"))
  }

  test("while it waits for room it does not run mail of upstream or the commit") {
    val h = new AsyncHarness(options(capacity = 1))
    var committed = Seq.empty[StreamElement[String, String]]
    h.process("a")
    new MailboxExecutor(h.mailbox, -1).execute(() => committed = h.snapshot, "commit")
    h.executor.execute(() => h.future("a").completeOne("a1"), "answer")
    h.process("b")
    assert(committed.isEmpty)
    h.mailbox.take(-1).run()
    assert(committed == Seq(Record(1, "b", 0)), "the element that was being put is in the snapshot")
  }

  test("an interrupt while waiting for room leaves the record out") {
    val h = new AsyncHarness(options(capacity = 1))
    h.process("a")
    Thread.currentThread().interrupt()
    intercept[InterruptedException](h.operator.processElement("b", 0))
    assert(h.attempts("b") == 0 && h.snapshot == Seq(Record(0, "a", 0)))
  }

  test("an exception that asyncInvoke throws is a failure of the call") {
    val h = new AsyncHarness(options().copy(onFailure = FailureAsRow))
    h.onInvoke = _ => throw new ArithmeticException
    h.process("a")
    h.runMail()
    assert(h.emitted == Seq("a=>failed ArithmeticException after 1 in 0"))
  }

  test("a function that answers at once is served like any other") {
    val h = new AsyncHarness(options(capacity = 2))
    h.onInvoke = call => call.future.completeOne("now")
    h.process("a", "b", "c", "d", "e")
    h.endInput()
    assert(h.emitted == Seq("a", "b", "c", "d", "e").map(_ + "=>now"))
  }

  test("by default a failure fails the task, with attempts and cause, and the place is freed") {
    val h = new AsyncHarness(options(capacity = 1))
    h.process("a")
    val error = intercept[AsyncCallException](h.fail("a", new java.io.IOException("down")))
    assert(error.attempts == 1 && error.getCause.getMessage == "down" && error.getMessage.contains("down"))
    h.runMail()
    assert(h.operator.hasCapacity && h.metrics.errors == 1)
  }

  test("answers behind one whose failure fails the task are not lost") {
    val h = new AsyncHarness(options())
    h.process("a", "b", "c")
    h.future("a").completeExceptionally(new RuntimeException)
    h.future("b").completeOne("b1")
    h.future("c").completeOne("c1")
    intercept[AsyncCallException](h.runMail())
    h.runMail()
    assert(h.emitted == Seq("a=>", "b=>b1", "c=>c1"))
  }

  test("a failure policy gives other rows, or none; null from it is an error") {
    val h = new AsyncHarness(options().copy(onFailure = FailureAsRow))
    h.process("a")
    h.fail("a")
    assert(h.emitted == Seq("a=>failed RuntimeException after 1 in 0"))
    val skipping = new AsyncHarness(options().copy(onFailure = (_, _) => java.util.List.of()))
    skipping.process("a")
    skipping.fail("a")
    assert(skipping.emitted == Seq("a=>"))
    val broken = new AsyncHarness(options().copy(onFailure = (_, _) => null))
    broken.process("a")
    assert(intercept[NullPointerException](broken.fail("a")).getMessage.contains("failure policy"))
  }

  test("end of input waits for everything in flight, and then takes no more") {
    val h = new AsyncHarness(options())
    h.process("a")
    h.executor.execute(() => h.future("a").completeOne("a1"), "answer")
    h.endInput()
    assert(h.operator.isDrained && h.emitted == Seq("a=>a1"))
    assert(intercept[IllegalStateException](h.process("b")).getMessage.contains("ended"))
    intercept[IllegalStateException](h.operator.tryProcessElement("b", 0))
  }

  test("end of input without blocking: isDrained tells when all has left") {
    val h = new AsyncHarness(options())
    h.process("a")
    h.operator.endInputReached()
    assert(!h.operator.isDrained)
    h.answer("a")
    assert(h.operator.isDrained)
  }

  test("a snapshot is what was not yet emitted, in order, done inputs with their rows") {
    for (ordered <- Seq(true, false)) {
      val h = new AsyncHarness(options(ordered))
      h.operator.processElement("a", 1)
      h.operator.processElement("b", 2)
      h.operator.processElement("c", AsyncOutput.NoTimestamp)
      h.future("c").completeOne("c1")
      h.runMail()
      val done = Answered(2, "c", AsyncOutput.NoTimestamp, util.List.of("c1"))
      val expected = Seq(Record(0, "a", 1), Record(1, "b", 2)) ++ Option.when(ordered)(done)
      assert(h.snapshot == expected && h.operator.nextElementId == 3)
    }
  }

  test("FLINK-7949: a restore of more than the capacity neither blocks nor exceeds it; ids stay") {
    val h = new AsyncHarness(options(capacity = 2))
    val elements = Seq(Record(4, "a", 1), Record(5, "b", 3), Record(6, "c", 4))
    h.operator.restore(util.Arrays.asList(elements: _*))
    assert(h.calls.map(_.input) == Seq("a", "b") && h.snapshot == elements && !h.operator.hasCapacity)
    assert(!h.operator.tryProcessElement("new", 9))
    h.answer("a")
    assert(h.calls.map(_.input) == Seq("a", "b", "c"))
    assert(h.snapshot == elements.drop(1))
    h.answer("b", "c")
    assert(h.emitted == Seq("a=>a1", "b=>b1", "c=>c1"))
    assert(h.operator.tryProcessElement("new", 9) && h.future("new").elementId == 7)
  }

  test("restored elements come before new input, which waits for them") {
    val h = new AsyncHarness(options(capacity = 1))
    h.operator.restore(util.List.of(Record(0, "a", 0L), Record(1, "b", 0L)))
    h.onInvoke = call => call.future.completeOne("now")
    h.executor.execute(() => h.future("a").completeOne("now"), "answer")
    h.process("c")
    h.endInput()
    assert(h.emitted == Seq("a=>now", "b=>now", "c=>now"))
  }

  test("close cancels what is in flight, once, closes the function, and nothing is emitted afterwards") {
    val h = new AsyncHarness(options().copy(retry = retry(3, 100)))
    h.process("done", "running", "waiting")
    h.fail("waiting")
    h.future("done").completeOne("x")
    h.operator.close()
    h.operator.close()
    h.future("running").completeOne("late")
    h.advanceTo(1000)
    assert(h.cancelled == Seq("running#1") && h.isClosed)
    assert(h.emitted.isEmpty && h.calls.size == 3 && h.time.scheduledTimers == 0)
    assert(h.metrics.inFlight == 0)
    assert(intercept[IllegalStateException](h.process("b")).getMessage.contains("closed"))
  }

  test("completions after the mailbox is closed are dropped in silence") {
    val h = new AsyncHarness(options())
    h.process("a")
    h.mailbox.close()
    h.future("a").completeOne("late")
    assert(h.emitted.isEmpty)
  }

  test("metrics count calls, those in flight now and at most, errors and latency") {
    val h = new AsyncHarness(options().copy(onFailure = FailureAsRow))
    h.process("a", "b", "c")
    h.time.advanceTo(3)
    h.answer("a", "b")
    h.fail("c")
    h.process("d")
    val m = h.metrics
    assert(m.calls == 4 && m.inFlight == 1 && m.inFlightMax == 3 && m.errors == 1 && m.retries == 0)
    assert(m.callLatency.getCount == 3 && m.callLatencyMean == 3e6)
    assert(m.callLatency.getSnapshot.get99thPercentile == 3e6)
  }

  test("the id of an element is its number, and its attempts count from one") {
    val h = new AsyncHarness(options())
    h.process("a", "b")
    assert(h.future("a").elementId == 0 && h.future("b").elementId == 1 && h.future("b").attempt == 1)
    assert(!h.future("a").isDone)
    h.future("a").completeOne("x")
    assert(h.future("a").isDone)
  }

  test("completions from other threads are all emitted, here, in order") {
    val inputs = (1 to 20000).map(_.toString)
    val h = new AsyncHarness(options(capacity = 64))
    val pool = java.util.concurrent.Executors.newFixedThreadPool(3)
    try {
      h.onInvoke = call => pool.execute(() => call.future.completeOne("ok"))
      inputs.foreach(h.operator.processElement(_, 0))
      h.endInput()
    } finally pool.shutdownNow()
    assert(h.emitted == inputs.map(_ + "=>ok"))
  }

  test("options are checked, with the values") {
    assert(intercept[IllegalArgumentException](options(capacity = 0)).getMessage.contains("not 0"))
    assert(
      intercept[IllegalArgumentException](options().copy(totalTimeoutMs = -1L)).getMessage.contains("-1")
    )
    assert(
      intercept[IllegalArgumentException](options().copy(attemptTimeoutMs = -1L)).getMessage.contains("-1")
    )
    val shorter =
      intercept[IllegalArgumentException](options().copy(totalTimeoutMs = 5L, attemptTimeoutMs = 6L))
    assert(shorter.getMessage.contains("5 ms") && shorter.getMessage.contains("6 ms"))
  }
}
