package io.pillarbox.async

import java.util.concurrent.{Executor, RejectedExecutionException, TimeUnit}

import scala.collection.mutable

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}
import io.pillarbox.metered.budget._
import io.pillarbox.metered.lease._
import io.pillarbox.metered.limit._
import io.pillarbox.metered.usage.UsageUnits
import org.scalatest.funsuite.AnyFunSuite

/** Attempts of another process, which asks for them by numbers. */
class CallPermitsSuite extends AnyFunSuite {
  private val NotReported: Int => Double = _ => Double.NaN

  private final class Desk(
      gate: Limiter,
      budget: Option[BudgetPart] = None,
      units: Seq[String] = Nil
  ) extends CallPermits.Answer
      with Executor {
    private val mail = mutable.Queue.empty[Runnable]
    private var isClosed = false
    val begun = mutable.Buffer.empty[Long]
    val refusals = mutable.Buffer.empty[(Long, Throwable)]
    val metrics = new AsyncMetrics(UsageUnits(units))
    val permits = new CallPermits(gate, budget, metrics, this, this)

    override def execute(work: Runnable): Unit =
      if (isClosed) throw new RejectedExecutionException else mail += work

    override def begins(id: Long): Unit = begun += id

    override def refused(id: Long, reason: Throwable): Unit = refusals += ((id, reason))

    def runMail(): Unit = while (mail.nonEmpty) mail.dequeue().run()

    def ask(ids: Long*): Unit = ids.foreach(permits.ask(_, null))

    /** The attempts that have begun since this was asked last. */
    def beginning: Seq[Long] = {
      runMail()
      val found = begun.toList
      begun.clear()
      found
    }

    def answer(id: Long): Unit = permits.ended(id, NotReported, null)

    def close(): Unit = {
      permits.close()
      isClosed = true
    }
  }

  test("attempts begin in the order in which they were asked for, as permits come back") {
    val gate = TestLimit.ofCalls(2)
    val desk = new Desk(gate)
    desk.ask(1, 2, 3, 4)
    assert(desk.beginning == Seq(1, 2))
    desk.answer(2)
    assert(desk.beginning == Seq(3))
    desk.answer(2) // it is over
    assert(desk.beginning == Nil)
    desk.answer(3)
    desk.answer(1)
    assert(desk.beginning == Seq(4))
    assert(gate.inUse == 1)
  }

  test("two that share a limit have equal parts of it, however many attempts wait in each") {
    val gate = TestLimit.ofCalls(1)
    val desks = Map("many" -> new Desk(gate), "few" -> new Desk(gate))
    desks("many").ask(1L to 20L: _*)
    desks("few").ask(1, 2, 3)
    val order = (1 to 6).map { _ =>
      val (name, id) = desks.iterator.flatMap { case (name, desk) => desk.beginning.map(name -> _) }.next()
      desks(name).answer(id)
      name
    }
    assert(order == Seq("many", "many", "few", "many", "few", "many"))
  }

  test(
    "an attempt that is given up holds nothing, whether it waits, has begun, or its permit is on its way"
  ) {
    val gate = TestLimit.ofCalls(1)
    val desk = new Desk(gate)
    desk.ask(1, 2, 3, 4)
    assert(desk.beginning == Seq(1))
    desk.permits.gaveUp(2, hasBegun = false, NotReported)
    desk.permits.gaveUp(1, hasBegun = true, NotReported)
    // The permit that was granted for the second one is for the next.
    desk.permits.gaveUp(3, hasBegun = false, NotReported)
    assert(desk.beginning == Seq(4))
    desk.answer(4)
    assert(gate.inUse == 0)
    desk.ask(5)
    assert(desk.beginning == Seq(5))
    desk.ask(6)
    desk.answer(5)
    desk.permits.gaveUp(6, hasBegun = false, NotReported)
    assert(desk.beginning == Nil)
    assert(gate.inUse == 0)
  }

  test("closing gives all back, also a permit that comes afterwards") {
    val gate = TestLimit.ofCalls(2)
    val (desk, other) = (new Desk(gate), new Desk(gate))
    other.ask(1)
    desk.ask(1, 2, 3)
    assert(desk.beginning == Seq(1))
    other.answer(1) // A permit for the second one is granted, and not yet taken up.
    desk.close()
    desk.runMail()
    assert(desk.begun.isEmpty && gate.inUse == 0)
  }

  test("charges are settled by what was reported, and kept where nothing was") {
    val clock = new SimulatedClock
    val gate = Limiter.ofUnits(Seq(TestLimit.ofRate(100, TimeUnit.MINUTES.toNanos(1), 1, clock) -> 0))
    val desk = new Desk(gate, units = Seq("tokens"))
    def ask(id: Long, charge: Double) = desk.permits.ask(id, Array(charge))
    ask(1, 40)
    ask(2, 50)
    ask(3, 40)
    clock.run(56000)
    assert(desk.beginning == Seq(1, 2))
    desk.permits.ended(1, _ => 10, null)
    clock.run(58000) // before the minute of the first one is over
    assert(desk.beginning == Seq(3))
    desk.permits.ended(2, NotReported, null)
    ask(4, 1)
    assert(desk.beginning == Nil)
  }

  test("behind one that is given up the next one waits for its own charges only") {
    val clock = new SimulatedClock
    val gate = Limiter.ofUnits(Seq(TestLimit.ofRate(100, TimeUnit.MINUTES.toNanos(1), 1, clock) -> 0))
    val desk = new Desk(gate, units = Seq("tokens"))
    Seq(1L -> 40.0, 2L -> 90.0, 3L -> 10.0).foreach { case (id, charge) =>
      desk.permits.ask(id, Array(charge))
    }
    clock.run(30000)
    assert(desk.beginning == Seq(1))
    desk.permits.gaveUp(2, hasBegun = false, NotReported)
    clock.run(45000)
    assert(desk.beginning == Seq(3))
  }

  test("a limit hears of overload, of pauses for all, and of what the service says") {
    val heard = mutable.Buffer.empty[String]
    val gate = new Limiter {
      override def tryAcquire(waiter: Runnable): Boolean = true
      override def cancel(waiter: Runnable): Boolean = false
      override def release(): Unit = ()
      override def observe(startNanos: Long, error: Throwable): Unit =
        heard += (if (error == null) "answer" else error.getClass.getSimpleName.takeWhile(_ != '$'))
      override def pause(nanos: Long): Unit = heard += s"pause $nanos"
      override def told(unit: Int, said: Feedback): Unit = heard += s"$unit has ${said.remaining}"
    }
    final class Later(override val all: Boolean) extends RuntimeException with RetryAfter {
      override def retryAfterMs: Long = 2
    }
    val desk = new Desk(gate)
    desk.ask(1, 2, 3, 4)
    desk.permits.told(1, Limiter.Calls, Feedback(7, 1))
    desk.permits.pause(1, 5)
    desk.answer(1)
    desk.permits.told(1, Limiter.Calls, Feedback(6, 1)) // it is over
    desk.permits.ended(2, NotReported, new Later(all = true))
    desk.permits.ended(3, NotReported, new Later(all = false))
    desk.permits.ended(4, NotReported, AsyncTimeoutException.attempt(1, 1))
    assert(
      heard == Seq(
        "-1 has 7.0",
        "pause 5",
        "answer",
        "Later",
        "pause 2000000",
        "Later",
        "AsyncTimeoutException"
      )
    )
  }

  private final class Bank(terms: BudgetTerms) {
    val clock = new SimulatedClock
    val ledger = new BudgetAllocator(terms)
    val part = TestLending.part(terms, clock) { (report, answer) =>
      clock.in(10)(Option(ledger.report("", "p", report, clock.nanoTime)).foreach(answer(_)))
    }

    def tick(desk: Desk): Unit = (1 to 10).foreach { _ =>
      clock.run(clock.nowMs + 200)
      desk.runMail()
    }
  }

  test("a pause of more time than a clock has lasts, as long as can be told") {
    for (ms <- Seq(Long.MaxValue, 9999999999999999L, Long.MaxValue / 1000000 + 1)) {
      val clock = new SimulatedClock
      val gates = Seq(
        TestLimit.ofCalls(5, clock),
        TestLending.limit(LimitTerms(5), clock)((_, answer) => answer(LimitGrant(5, 0L, 1L << 40)))
      )
      gates.foreach { gate =>
        val desk = new Desk(gate)
        desk.ask(1)
        clock.run(clock.nowMs + 1)
        assert(desk.beginning == Seq(1))
        desk.permits.ended(1, NotReported, new ComeBackAll(ms))
        desk.ask(2)
        assert(desk.beginning == Nil && !gate.mayBegin, s"$ms ms")
        clock.run(clock.nowMs + TimeUnit.DAYS.toMillis(100))
        assert(desk.beginning == Nil, s"$ms ms")
      }
    }
  }

  private final class ComeBackAll(ms: Long) extends RuntimeException with RetryAfter {
    override def retryAfterMs: Long = ms
    override def all: Boolean = true
  }

  test("a budget is asked before a limit, and what it refuses does not begin") {
    val bank = new Bank(BudgetTerms(Seq("calls" -> 3.0)))
    val gate = TestLimit.ofCalls(1)
    val desk = new Desk(gate, Some(bank.part))
    desk.ask(1, 2, 3)
    bank.tick(desk)
    assert(desk.beginning == Seq(1))
    desk.answer(1)
    assert(desk.beginning == Seq(2))
    // It waits for the limit and is not made, so it is not spent.
    desk.permits.gaveUp(3, hasBegun = false, NotReported)
    desk.answer(2)
    desk.ask(4, 5)
    bank.tick(desk)
    assert(desk.beginning == Seq(4))
    desk.answer(4)
    bank.tick(desk)
    assert(desk.beginning == Nil)
    assert(desk.refusals.map(_._1) == Seq(5))
    assert(desk.refusals.head._2.isInstanceOf[BudgetExceededException])
    assert(bank.ledger.spent.amounts == Seq(3.0))
    assert(gate.inUse == 0)
  }

  test("a budget counts what was reported and rows that failed, and an attempt given up by its estimate") {
    val bank = new Bank(BudgetTerms(Seq("tokens" -> 1000.0), failedRows = Some(5)))
    val desk = new Desk(Limiter.Unlimited, Some(bank.part), Seq("calls of it", "tokens"))
    def used(tokens: Double): Int => Double = unit => if (unit == 1) tokens else Double.NaN
    desk.ask(1, 2, 3)
    bank.tick(desk)
    assert(desk.beginning == Seq(1, 2, 3))
    desk.permits.ended(1, used(40), null)
    desk.permits.rowEnded(isFailed = false)
    bank.tick(desk)
    desk.permits.ended(2, used(60), new RuntimeException)
    desk.permits.rowEnded(isFailed = true)
    desk.permits.gaveUp(3, hasBegun = true, NotReported)
    bank.tick(desk)
    assert(bank.ledger.spent.amounts == Seq(140.0)) // the third by the mean, as known when it ended
    assert((bank.ledger.spent.rows, bank.ledger.spent.failed) == ((2, 1)))
  }
}
