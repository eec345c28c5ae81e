package io.pillarbox.async

import java.util.concurrent.TimeUnit

import io.pillarbox.api.RetryAfter
import io.pillarbox.async.AsyncHarness._
import io.pillarbox.mailbox.MailboxTesting
import io.pillarbox.metered.limit._
import org.scalatest.funsuite.AnyFunSuite

/** Operators whose calls wait for limits. */
class LimitedCallsSuite extends AnyFunSuite {

  private final class ComeBack(ms: Long, override val all: Boolean = false)
      extends RuntimeException
      with RetryAfter {
    override def retryAfterMs: Long = ms
  }

  private final class NoAmount extends RuntimeException

  private def charged(amounts: Map[String, Double])(inputs: java.util.List[String]): Array[Double] =
    Array(inputs.stream.mapToDouble(amounts.getOrElse(_, throw new NoAmount)).sum)

  private def tokens(most: Double, clock: LimitClock): Limiter =
    Limiter.ofUnits(Seq(TestLimit.ofRate(most, TimeUnit.MINUTES.toNanos(1), 1, clock) -> 0))

  test("two operators on one limiter share it in turn, though one has many more elements waiting") {
    val limiter = TestLimit.ofCalls(1)
    val big = new AsyncHarness(options(ordered = false, capacity = 100).copy(limiter = limiter))
    val small = new AsyncHarness(options(ordered = false).copy(limiter = limiter))
    big.process((1 to 50).map(i => s"big$i"): _*)
    small.process("small1", "small2")
    assert(big.calls.size == 1 && small.calls.isEmpty)
    big.answer("big1")
    small.runMail()
    assert(small.calls.isEmpty, "the big one stood in line first, for its second element")
    big.answer("big2")
    small.runMail()
    assert(small.calls.map(_.input) == Seq("small1") && big.calls.size == 2)
    small.answer("small1")
    big.runMail()
    assert(big.calls.size == 3)
    big.answer("big3")
    small.runMail()
    assert(small.calls.map(_.input) == Seq("small1", "small2"))
    small.answer("small2")
    big.operator.close()
    big.runMail()
    assert(limiter.inUse == 0)
  }

  test("a permit is held from an attempt's start to its end, not while a retry waits") {
    val limiter = TestLimit.ofCalls(1)
    val h = new AsyncHarness(options(ordered = false).copy(limiter = limiter, retry = retry(3, 10)))
    h.process("a", "b")
    assert(h.calls.map(_.input) == Seq("a") && limiter.inUse == 1)
    h.fail("a")
    assert(h.calls.map(_.input) == Seq("a", "b"))
    h.advanceTo(10)
    assert(h.attempts("a") == 1, "the retry waits for the permit")
    h.answer("b")
    assert(h.attempts("a") == 2)
    h.answer("a")
    assert(limiter.inUse == 0 && h.emitted == Seq("b=>b1", "a=>a1"))
  }

  test("a permit is free when the call ends, though the thread of its operator is busy and takes no mail") {
    val limiter = TestLimit.ofCalls(2)
    val busy = new AsyncHarness(options(ordered = false).copy(limiter = limiter))
    val other = new AsyncHarness(options(ordered = false).copy(limiter = limiter))
    busy.process("a", "b")
    other.process("c", "d")
    assert(other.calls.isEmpty)
    val batch = busy.operator.completionBatch()
    MailboxTesting.await(MailboxTesting.start {
      busy.future("a").completeExceptionally(new RuntimeException("no luck"))
      batch.completeOne(busy.future("b"), "b1")
    })
    other.runMail()
    assert(other.calls.map(_.input) == Seq("c", "d") && busy.emitted.isEmpty && limiter.inUse == 2)
    busy.future("b").completeOne("late")
    assert(limiter.inUse == 2, "an answer that lost gives no permit back")
  }

  test("deadlines start with the first permit, and an attempt that times out gives its permit back") {
    val limiter = TestLimit.ofCalls(1)
    val h = new AsyncHarness(
      options(ordered = false)
        .copy(limiter = limiter, totalTimeoutMs = 100L, attemptTimeoutMs = 60L, onFailure = FailureAsRow)
    )
    h.process("a", "b")
    h.advanceTo(60)
    assert(h.emitted == Seq("a=>failed AsyncTimeoutException after 1 in 60") && h.attempts("b") == 1)
    h.advanceTo(119)
    assert(h.emitted.size == 1)
    h.advanceTo(120)
    assert(h.emitted.last == "b=>failed AsyncTimeoutException after 1 in 60" && limiter.inUse == 0)
  }

  test("an element whose total deadline passes while its retry waits for a permit leaves the line") {
    val limiter = TestLimit.ofCalls(1)
    val h = new AsyncHarness(
      options(ordered = false)
        .copy(limiter = limiter, totalTimeoutMs = 100L, retry = retry(9, 10), onFailure = FailureAsRow)
    )
    h.process("a")
    h.fail("a")
    limiter.tryAcquire(() => ())
    h.advanceTo(10)
    assert(h.attempts("a") == 1)
    h.advanceTo(100)
    assert(h.emitted == Seq("a=>failed AsyncTimeoutException after 1 in 100"))
    var others = 0
    limiter.tryAcquire(() => others += 1)
    limiter.release()
    assert(others == 1, "whoever stands behind it has the permit at once")
    limiter.release()
    h.runMail()
    assert(h.attempts("a") == 1 && limiter.inUse == 0)
    h.process("b")
    assert(h.attempts("b") == 1)
  }

  test("close gives permits back: held, granted and not yet used, and in line") {
    val limiter = TestLimit.ofCalls(1)
    val holder = new AsyncHarness(options().copy(limiter = limiter))
    val granted = new AsyncHarness(options().copy(limiter = limiter))
    val inLine = new AsyncHarness(options().copy(limiter = limiter))
    Seq(holder, granted, inLine).foreach(_.process("a"))
    holder.operator.close()
    granted.operator.close()
    inLine.operator.close()
    Seq(holder, granted, inLine).foreach(_.runMail())
    assert(limiter.inUse == 0 && granted.calls.isEmpty && inLine.calls.isEmpty)
  }

  test("a permit that was granted before a pause, and is in the mailbox, is not used in it") {
    val clock = new SimulatedClock
    val limiter = TestLimit.adaptive(3, clock)
    val one = new AsyncHarness(options().copy(limiter = limiter, onFailure = FailureAsRow))
    val other = new AsyncHarness(options().copy(limiter = limiter))
    one.process("a", "b", "c")
    other.process("d")
    one.answer("a")
    one.fail("b", new ComeBack(1000L))
    assert(other.calls.isEmpty)
    other.runMail()
    assert(other.calls.isEmpty && limiter.inUse == 1)
    clock.run(1000)
    other.runMail()
    assert(other.calls.map(_.input) == Seq("d"))
  }

  test("a call that has a permit and waits for the rate does not begin in a pause") {
    val clock = new SimulatedClock
    val adaptive = TestLimit.adaptive(10, clock)
    val rate = TestLimit.ofRate(10, TimeUnit.SECONDS.toNanos(1), 1, clock)
    val h = new AsyncHarness(options().copy(limiter = Limiter.all(adaptive, rate), onFailure = FailureAsRow))
    h.process("a", "b", "c", "d")
    assert(h.calls.map(_.input) == Seq("a"))
    h.fail("a", new ComeBack(5000L))
    (1 to 49).foreach { tenth =>
      clock.run(tenth * 100L)
      h.runMail()
    }
    assert(h.calls.size == 1)
    (50 to 53).foreach { tenth =>
      clock.run(tenth * 100L)
      h.runMail()
    }
    assert(h.calls.map(_.input) == Seq("a", "b", "c", "d"))
    h.answer("b", "c", "d")
    assert(adaptive.inUse == 0)
  }

  test("a pause of the whole limit is for every operator under it, and uses up no attempt") {
    val clock = new SimulatedClock
    val limiter = TestLimit.ofCalls(3, clock)
    val h = new AsyncHarness(options(ordered = false).copy(limiter = limiter, onFailure = FailureAsRow))
    val other = new AsyncHarness(options(ordered = false).copy(limiter = limiter))
    h.process("a", "b")
    (1 to 3).foreach { round =>
      h.fail("a", new ComeBack(1000L, all = true))
      other.process(s"c$round")
      h.advanceTo(round * 1000L)
      clock.run(round * 1000L - 1)
      Seq(h, other).foreach(_.runMail())
      assert(h.attempts("a") == round && other.calls.size == round - 1)
      clock.run(round * 1000L)
      Seq(h, other).foreach(_.runMail())
      assert(h.attempts("a") == round + 1 && other.calls.size == round)
      other.answer(s"c$round")
    }
    h.fail("a")
    assert(h.emitted.size == 1 && h.emitted.head.startsWith("a=>failed"), "it has one attempt")
    h.answer("b")
    assert(limiter.inUse == 0)
  }

  test("a call that can't be charged fails, and those behind it go on") {
    val clock = new SimulatedClock
    val h = new AsyncHarness(
      options(ordered = false).copy(
        limiter = tokens(100, clock),
        charges = Some(charged(Map("a" -> 10, "c" -> 10))),
        onFailure = FailureAsRow,
        retry = retry(3, 10)
      )
    )
    h.process("a", "b", "c")
    h.runMail()
    clock.run(7000)
    h.runMail()
    assert(h.calls.map(_.input) == Seq("a", "c") && h.emitted.size == 1, h.emitted)
  }

  test("of rows that are called together those that can't be charged fail, and the others go on") {
    val rows = Map("a" -> 10.0, "c" -> 10.0, "d" -> 90.0, "e" -> 90.0)
    def limited(inputs: java.util.List[String]): Array[Double] = {
      val sums = charged(rows)(inputs)
      if (sums.sum > 100) throw new IllegalStateException
      sums
    }
    val h = new AsyncHarness(
      options(ordered = false, capacity = 20).copy(
        limiter = tokens(100, new SimulatedClock),
        charges = Some(limited(_)),
        batching = Some(Batching(3, 10L)),
        onFailure = FailureAsRow
      )
    )
    h.process("a", "b", "c", "b", "d", "e")
    h.runMail()
    assert(h.groups == Seq(Seq("a", "c")))
    assert(
      h.emitted == Seq("b", "b").map(row => s"$row=>failed NoAmount after 0 in 0") ++
        Seq("d", "e").map(row => s"$row=>failed IllegalStateException after 0 in 0")
    )
  }

  test("a permit that was granted for a call that is gone is not used for one that is charged otherwise") {
    val clock = new SimulatedClock
    val h = new AsyncHarness(
      options(ordered = false).copy(
        limiter = tokens(100, clock),
        charges = Some(charged(Map("a" -> 100, "b" -> 1, "c" -> 100))),
        totalTimeoutMs = 1000L,
        retry = retry(2, 10),
        onFailure = FailureAsRow
      )
    )
    h.process("a", "b")
    h.fail("a")
    h.process("c")
    clock.run(61000)
    // The permit is b's, and on its way.
    assert(h.calls.map(_.input) == Seq("a"))
    h.runMail()
    assert(h.calls.map(_.input) == Seq("a", "b"))
    clock.run(125000)
    h.runMail()
    assert(h.calls.map(_.input) == Seq("a", "b", "c"))
  }
}
