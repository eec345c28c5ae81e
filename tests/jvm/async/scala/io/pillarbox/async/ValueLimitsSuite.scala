package io.pillarbox.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.RetryAfter
import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.journal.CallKey
import io.pillarbox.metered.lease.TestLending
import io.pillarbox.metered.limit._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tagobjects.Slow

/** Limits that each value of a key has by itself: here the first letter. */
class ValueLimitsSuite extends AnyFunSuite {
  private val Second = TimeUnit.SECONDS.toNanos(1)

  private final class ComeBackAll(ms: Long) extends RuntimeException with RetryAfter {
    override def retryAfterMs: Long = ms
    override def all: Boolean = true
  }

  /**
   * Holds a limiter for each value, and forgets it as an executor may: when it is closed.
   *
   * @param common those of limits without a key
   */
  private final class Limiters(of: String => Seq[Limiter], common: Limiter*) extends ValueLimiters[String] {
    val held = mutable.LinkedHashMap.empty[String, Seq[Limiter]]
    var opened = 0

    override def valueOf(input: String): AnyRef = input.take(1)

    override def open(value: AnyRef): ValueLimiter = {
      val name = value.toString
      assert(!held.contains(name))
      opened += 1
      val own = of(name)
      held(name) = own
      new ValueLimiter {
        override val limiter: Limiter =
          Limiter.ofUnits((common ++ own).map(_ -> Limiter.Calls), own.contains)
        override def close(): Unit = held.remove(name): Unit
      }
    }
  }

  private def limited(limiters: Limiters, capacity: Int = 10, ordered: Boolean = false) =
    options(ordered, capacity).copy(valueLimiters = Some(limiters), onFailure = FailureAsRow)

  private def atOnce(most: Int) = new Limiters(_ => Seq(TestLimit.ofCalls(most)))

  private def started(h: AsyncHarness) = h.calls.map(_.input)

  test("each value has its own limit, and the next of a value begins when one ends") {
    val h = new AsyncHarness(limited(atOnce(1)))
    h.process("a1", "a2", "b1", "a3", "b2")
    assert(started(h) == Seq("a1", "b1"))
    h.answer("a1")
    assert(started(h) == Seq("a1", "b1", "a2"))
    h.answer("b1")
    h.answer("a2")
    assert(started(h) == Seq("a1", "b1", "a2", "b2", "a3"))
  }

  test("calls that wait for their value's limit have no slot: others are called up to the capacity") {
    val h = new AsyncHarness(limited(atOnce(1), capacity = 3))
    assert((1 to 50).forall(n => h.operator.tryProcessElement(s"a$n", 0)))
    assert(h.operator.tryProcessElement("b1", 0) && h.operator.tryProcessElement("c1", 0))
    assert(!h.operator.tryProcessElement("d1", 0), "three are under way")
    assert(started(h) == Seq("a1", "b1", "c1"))
    h.answer("b1")
    assert(h.operator.tryProcessElement("d1", 0))
    assert(started(h).last == "d1")
  }

  test("nothing is read any more once as many calls wait as may") {
    val limiters = atOnce(1)
    val h = new AsyncHarness(limited(limiters, capacity = 2))
    var taken = 0
    while (h.operator.tryProcessElement(s"a$taken", 0)) taken += 1
    assert(taken == 1 + limited(limiters).roomForKeys)
    h.answer("a0")
    assert(started(h).last == "a1" && h.operator.tryProcessElement("b", 0))
  }

  test("a permit that comes while there is no slot goes back, and others have it") {
    val shared = TestLimit.ofCalls(1)
    val h = new AsyncHarness(limited(new Limiters(value => if (value == "a") Seq(shared) else Nil), 1))
    val other: Runnable = () => ()
    assert(shared.tryAcquire(other))
    h.process("a1")
    h.process("b1")
    assert(started(h) == Seq("b1"))
    shared.release()
    h.runMail()
    assert(started(h) == Seq("b1") && shared.inUse == 0, "it holds nothing while it waits for its slot")
    assert(shared.tryAcquire(other))
    h.answer("b1")
    assert(started(h) == Seq("b1") && h.operator.tryProcessElement("c1", 0), "it left its slot again")
    shared.release()
    h.answer("c1")
    assert(started(h) == Seq("b1", "c1", "a1") && shared.inUse == 1)
    h.answer("a1")
    assert(shared.inUse == 0)
  }

  test("a retry waits outside of the capacity too, before those of its value that have not begun") {
    val clock = new SimulatedClock
    val limiters = new Limiters(_ => Seq(TestLimit.ofRate(1, Second, 1, clock)))
    val h = new AsyncHarness(limited(limiters, capacity = 3).copy(retry = retry(2, 10)))
    h.process("a1", "a2", "a3")
    h.fail("a1")
    h.advanceTo(10)
    assert(started(h) == Seq("a1"))
    h.process("b1", "c1", "d1")
    assert(!h.operator.tryProcessElement("e1", 0))
    h.answer("b1", "c1", "d1")
    for (second <- 1 to 4) {
      clock.run(second * 1010L)
      h.runMail()
    }
    assert(started(h) == Seq("a1", "b1", "c1", "d1", "a2", "a1", "a3"), "a2 was at the limit already")
  }

  test("room that a call leaves as it waits is told, though no row leaves with it") {
    val clock = new SimulatedClock
    val h = new AsyncHarness(
      limited(new Limiters(_ => Seq(TestLimit.ofRate(1, Second, 1, clock))), capacity = 1)
        .copy(retry = retry(2, 10))
    )
    h.process("a1")
    h.operator.onCapacityAvailable(() => h.operator.tryProcessElement("b1", 0): Unit)
    assert(!h.operator.tryProcessElement("b1", 0))
    h.fail("a1")
    assert(started(h) == Seq("a1"), "it waits for its retry in its slot")
    h.advanceTo(10)
    assert(started(h) == Seq("a1", "b1"))
  }

  test("room that a permit leaves is told, though no call has ended") {
    val clock = new SimulatedClock
    val options = limited(new Limiters(_ => Seq(TestLimit.ofRate(1, Second, 1, clock))), capacity = 3)
    val h = new AsyncHarness(options)
    var taken = 0
    while (h.operator.tryProcessElement(s"a$taken", 0)) taken += 1
    h.operator.onCapacityAvailable(() => h.operator.tryProcessElement("b", 0): Unit)
    clock.run(1010)
    h.runMail()
    assert(started(h) == Seq("a0", "a1", "b"))
  }

  test("a value without calls is forgotten, however its calls end") {
    val limiters = atOnce(1)
    val h = new AsyncHarness(limited(limiters).copy(totalTimeoutMs = 50, retry = retry(2, 100)))
    h.process("a1", "b1", "b2", "c1", "d1")
    h.answer("a1")
    h.fail("c1")
    h.advanceTo(60)
    h.answer("b2")
    assert(limiters.held.isEmpty && h.emitted.size == 5, h.emitted)
    h.process("a2")
    assert(limiters.opened == 5 && limiters.held.keySet == Set("a"))
  }

  test("100,000 values one after another leave nothing behind", Slow) {
    val limiters = atOnce(1)
    val h = new AsyncHarness(limited(limiters))
    h.onInvoke = call => call.future.completeOne("x")
    (1 to 100000).foreach { n =>
      h.process(Character.toString(0x10000 + n))
      h.runMail()
    }
    assert(limiters.opened > 60000 && limiters.held.isEmpty && h.emitted.size == 100000)
  }

  test("values take turns at a limit that they share") {
    val shared = TestLimit.ofCalls(1)
    val h = new AsyncHarness(limited(new Limiters(_ => Seq(TestLimit.ofCalls(100)), shared)))
    h.process((1 to 20).map(n => s"a$n"): _*)
    h.process("b1", "b2", "c1", "c2")
    (1 to 9).foreach(_ => h.answer(h.calls.last.input))
    val first = started(h).take(9)
    assert(first.count(_.startsWith("b")) == 2 && first.count(_.startsWith("c")) == 2, first)
  }

  test("with more values at their limits than there are slots, none starves") {
    val clock = new SimulatedClock
    val kept = mutable.Map.empty[String, LocalLimit]
    val h = new AsyncHarness(
      limited(
        new Limiters(value => Seq(kept.getOrElseUpdate(value, TestLimit.ofRate(4, Second, 4, clock)))),
        capacity = 2
      )
    )
    val values = "abcdefgh"
    for { n <- 1 to 30; value <- values } {
      assert(h.operator.tryProcessElement(s"$value$n", 0))
      h.calls.filterNot(_.future.isDone).foreach(call => h.answer(call.input))
    }
    assert(started(h).size == 4 * values.size)
    // Each second all values may begin four calls, and there are slots for 20.
    for (second <- 1 to 10) {
      clock.run(second * 1100L)
      h.runMail()
      (1 to 10).foreach { _ =>
        val open = h.calls.filterNot(_.future.isDone)
        assert(open.size == 2)
        h.answer(open.map(_.input).toSeq: _*)
      }
    }
    val counts = values.map(value => started(h).count(_.head == value))
    assert(counts.sum == 4 * values.size + 200 + 2 && counts.max - counts.min <= 3, counts)
  }

  test("a permit of a rate that finds no slot goes back, and is there when the call has one") {
    val clock = new SimulatedClock
    val rate = TestLimit.ofRate(1, Second, 1, clock)
    val own = (value: String) => Seq(if (value == "a") rate else TestLimit.ofCalls(100))
    val h = new AsyncHarness(limited(new Limiters(own), capacity = 2))
    h.process("a1", "a2", "b1")
    assert(started(h) == Seq("a1", "b1"))
    clock.run(1100)
    h.runMail()
    assert(started(h) == Seq("a1", "b1"), "there is no slot")
    h.answer("b1")
    assert(started(h) == Seq("a1", "b1", "a2"))
  }

  test("a pause of the whole limit, and what headers say, is of the row's own value") {
    val clock = new SimulatedClock
    val shared = TestLimit.ofRate(1000, Second, 1000, clock)
    val limiters = new Limiters(_ => Seq(TestLimit.ofRate(1000, Second, 1000, clock)), shared)
    val h = new AsyncHarness(limited(limiters))
    h.process("a1", "b1")
    h.fail("a1", new ComeBackAll(1000))
    h.future("b1").told(Limiter.Calls, Feedback(remaining = 0, resetNanos = Second / 2))
    h.process("a2", "b2", "c1")
    assert(started(h) == Seq("a1", "b1", "c1"))
    clock.run(600)
    h.runMail()
    assert(started(h) == Seq("a1", "b1", "c1", "b2"))
    clock.run(1001)
    h.advanceTo(1001)
    assert(started(h).drop(4).sorted == Seq("a1", "a2"))
  }

  for (isLent <- Seq(false, true))
    test(s"a word on calls is of the common rate where the value's limit can't hear it, lent: $isLent") {
      val clock = new SimulatedClock
      val terms = LimitTerms(calls = 2)
      val leased = TestLending.limit(terms, clock)((_, _) => ())
      val own = if (isLent) leased else TestLimit.ofCalls(2)
      val ofTokens = TestLimit.ofRate(1000.0, Second, 1000.0, clock)
      val common = TestLimit.ofRate(20.0, Second, 1.0, clock)
      val limiter = Limiter.ofUnits(
        Seq(own -> Limiter.Calls, ofTokens -> 0, common -> Limiter.Calls),
        Set[Limiter](own, ofTokens)
      )
      limiter.told(Limiter.Calls, Feedback(remaining = 0, resetNanos = 5 * Second))
      assert(common.isBound)
      assert(!ofTokens.isBound)
      assert(!limiter.mayBegin)
    }

  test("closing gives back the permits of all values, and those on their way") {
    val made = mutable.Map.empty[String, LocalLimit]
    val limiters = new Limiters(value => Seq(made.getOrElseUpdate(value, TestLimit.ofCalls(1))))
    val h = new AsyncHarness(limited(limiters))
    h.process("a1", "a2", "b1", "b2", "c1")
    h.future("b1").completeOne("x")
    h.operator.close()
    assert(made.values.forall(_.inUse == 0) && limiters.held.isEmpty && h.metrics.inFlight == 0)
    made.values.foreach(limiter => assert(limiter.tryAcquire(() => ()), "nobody waits any more"))
  }

  test("an answer that came while a call waited for its value is taken from the journal, in its turn") {
    val h = new AsyncHarness(
      limited(atOnce(1)).copy(
        callKey = Some(input => CallKey(0L, input.takeWhile(_ != ':').hashCode.toLong)),
        shareCalls = true
      )
    )
    h.process("ax:1", "ax:2", "ay:1", "by:1")
    assert(started(h) == Seq("ax:1", "by:1"), "rows with one call have one permit")
    h.answer("ax:1")
    assert(started(h).last == "ay:1" && h.emitted.size == 2)
  }

  test("a batch is refused") {
    val problem =
      intercept[IllegalArgumentException](limited(atOnce(1)).copy(batching = Some(Batching(2, 5))))
    assert(problem.getMessage.contains("value of the key"))
  }

  for (seed <- 1 to 60) test(s"random programs keep the limit of each value, and every permit, seed $seed") {
    val random = new Random(seed)
    val clock = new SimulatedClock
    val (capacity, ordered) = (1 + random.nextInt(6), random.nextBoolean())
    val (most, perSecond) = (1 + random.nextInt(3), 1 + random.nextInt(8))
    val kept = mutable.Map.empty[String, (LocalLimit, LocalLimit)]
    def own(value: String) = kept.getOrElseUpdate(
      value,
      (TestLimit.ofCalls(most, clock), TestLimit.ofRate(perSecond.toDouble, Second, 1, clock))
    )
    val common = TestLimit.ofCalls(1 + random.nextInt(8), clock)
    val limiters = new Limiters(
      value => Seq(own(value)._1, own(value)._2),
      common
    )
    val h = new AsyncHarness(
      limited(limiters, capacity, ordered).copy(
        retry = retry(1 + random.nextInt(3), 20),
        totalTimeoutMs = if (random.nextBoolean()) 0 else 500L + random.nextInt(3000),
        keyed = Option.when(random.nextInt(3) == 0)(Keyed[String](_.drop(1).take(1), 1))
      )
    )
    val oracles = mutable.Map.empty[String, UsageOracle]
    val put = mutable.Buffer.empty[String]
    h.onInvoke = call => {
      val value = call.input.take(1)
      oracles.getOrElseUpdate(value, new UsageOracle(clock)).add(clock.nanoTime, 1, 1, clock.nanoTime)
      val open = h.calls.filterNot(_.future.isDone)
      assert(open.size <= capacity && open.count(_.input.startsWith(value)) <= most)
    }
    def step(n: Int): Unit = random.nextInt(4) match {
      case 0 | 1 =>
        val name = s"${"aaabc".charAt(random.nextInt(5))}${random.nextInt(3)}/$n"
        if (h.operator.tryProcessElement(name, 0)) put += name
      case 2 => answerOne()
      case _ => pass(random.nextInt(200))
    }
    def answerOne(): Unit = {
      val open = h.calls.filterNot(_.future.isDone)
      open.lift(random.nextInt(math.max(1, open.size))).foreach { call =>
        if (random.nextInt(4) == 0) call.future.completeExceptionally(new ArithmeticException)
        else call.future.completeOne("x")
        h.runMail()
      }
    }
    def pass(ms: Int): Unit = (1 to ms).foreach { _ =>
      clock.run(clock.nowMs + 1)
      h.advanceTo(clock.nowMs)
    }
    (1 to 300).foreach(step)
    if (random.nextInt(4) == 0) h.operator.close()
    else {
      h.operator.endInputReached()
      while (!h.operator.isDrained) {
        answerOne()
        pass(50)
        assert(clock.nowMs < 3600000, "some call never begins")
      }
      assert(h.emitted.map(_.takeWhile(_ != '=')).sorted == put.sorted)
    }
    // A call begins up to a millisecond after its charge.
    oracles.values.foreach(_.check(perSecond.toDouble, Second - 2000000L))
    assert(common.inUse == 0 && kept.values.forall(_._1.inUse == 0) && h.metrics.inFlight == 0)
  }
}
