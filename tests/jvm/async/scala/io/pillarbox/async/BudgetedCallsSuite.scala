package io.pillarbox.async

import scala.collection.mutable

import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.budget._
import io.pillarbox.metered.journal.CallKey
import io.pillarbox.metered.lease.TestLending
import io.pillarbox.metered.limit._
import io.pillarbox.metered.usage.UsageUnits
import org.scalatest.funsuite.AnyFunSuite

/** An operator with a budget, whose ledger answers when the test says. */
class BudgetedCallsSuite extends AnyFunSuite {

  private final class Bank(terms: BudgetTerms) {
    val clock = new SimulatedClock
    val ledger = new BudgetAllocator(terms)
    var isClosed = false
    var told: BudgetReport = _
    private val waiting = mutable.Queue.empty[() => Unit]

    val part = TestLending.part(terms, clock) { (report, answer) =>
      told = report
      waiting += (() => Option(ledger.report("", "p", report, clock.nanoTime)).foreach(answer(_)))
    }

    /** Answers what the part asks, as long as that lets calls go on. */
    def answer(h: AsyncHarness): Unit = while (!isClosed && waiting.nonEmpty) {
      waiting.dequeue()()
      h.runMail()
    }

    /** Lets time go on for the part, so that it reports, and answers. */
    def tick(h: AsyncHarness): Unit = (1 to 4).foreach { _ =>
      clock.run(clock.nowMs + 250)
      answer(h)
    }

    def spent: Double = ledger.spent.amounts.headOption.getOrElse(0.0)
  }

  private def calls(most: Int) = new Bank(BudgetTerms(Seq("calls" -> most.toDouble)))

  private def operator(
      bank: Bank,
      change: AsyncOptions[String, String] => AsyncOptions[String, String] = identity
  ) =
    new AsyncHarness(change(options().copy(budget = Some(bank.part), onFailure = FailureAsRow)))

  private val skipped = "failed BudgetExceededException after 0 in 0"

  test("calls wait in order until the ledger has answered; those beyond the budget fail without one") {
    val bank = calls(2)
    val h = operator(bank)
    h.process("a", "b", "c")
    h.runMail()
    assert(h.calls.isEmpty && h.metrics.inFlight == 3)
    bank.answer(h)
    assert(h.calls.map(_.input) == Seq("a", "b"))
    h.answer("a")
    bank.tick(h)
    assert(h.emitted == Seq("a=>a1"), "a call under way may not have begun, as far as is known")
    h.answer("b")
    bank.answer(h)
    assert(h.emitted == Seq("a=>a1", "b=>b1", s"c=>$skipped") && h.operator.isDrained)
    h.process("d")
    h.runMail()
    assert(h.emitted.last == s"d=>$skipped" && h.metrics.calls == 2 && h.metrics.errors == 2)
  }

  test("retries count, and a retry that the budget does not suffice for fails at once") {
    val bank = calls(3)
    val h = operator(bank, _.copy(retry = retry(10, 5)))
    h.process("a")
    bank.answer(h)
    (1 to 3).foreach { attempt =>
      h.fail("a")
      h.advanceTo(5L * attempt)
      bank.tick(h)
    }
    assert(h.attempts("a") == 3 && h.emitted == Seq("a=>failed BudgetExceededException after 3 in 15"))
  }

  test("a call that is given up before it begins costs nothing, one that was cut off does") {
    val bank = calls(10)
    val limiter = TestLimit.ofCalls(1)
    val h = operator(bank, _.copy(limiter = limiter, totalTimeoutMs = 50))
    h.process("a", "b")
    bank.answer(h)
    assert(h.calls.map(_.input) == Seq("a"))
    h.operator.close()
    bank.tick(h)
    assert(bank.spent == 1.0)
    bank.part.release()
    bank.answer(h)
    assert(bank.ledger.charged("").amounts == Seq(1.0))
  }

  test("a list costs one for each of its rows, and what is left makes a short one") {
    val bank = calls(5)
    val h = operator(bank, _.copy(batching = Some(Batching(3, 10))))
    h.process("a", "b", "c", "d", "e", "f")
    bank.answer(h)
    h.advanceTo(10)
    assert(h.groups == Seq(Seq("a", "b", "c"), Seq("d", "e")))
    h.answer("a", "b", "c", "d", "e")
    bank.tick(h)
    assert(h.emitted.last == s"f=>$skipped" && bank.spent == 5.0)
  }

  test("rows that share a call cost one together") {
    val bank = calls(1)
    val h = operator(bank, _.copy(callKey = Some(_ => CallKey(1, 1)), shareCalls = true))
    h.process("a", "b", "c")
    bank.answer(h)
    h.answer("a")
    assert(h.emitted == Seq("a=>a1", "b=>a1", "c=>a1") && h.metrics.calls == 1)
  }

  test("rows that fail end it, whatever becomes of them") {
    val bank = new Bank(BudgetTerms(Nil, failedRows = Some(1)))
    val h = operator(bank)
    h.process("a", "b", "c", "d")
    h.runMail()
    assert(h.calls.size == 4, "nothing needs to be asked")
    h.fail("a")
    h.fail("b")
    h.process("e")
    h.runMail()
    assert(h.attempts("e") == 0)
    bank.answer(h)
    h.answer("c", "d")
    assert(h.emitted.last == s"e=>$skipped" && h.emitted.contains("c=>c1"))
  }

  test("a row whose time is over while it waits for the budget has the timeout, and costs nothing") {
    val bank = calls(1)
    val h = operator(bank, _.copy(retry = retry(2, 5), totalTimeoutMs = 50))
    h.process("a")
    bank.answer(h)
    h.fail("a")
    bank.isClosed = true
    h.advanceTo(5)
    bank.clock.run(30000)
    assert(bank.told.isWaiting)
    h.advanceTo(60)
    assert(h.emitted == Seq("a=>failed AsyncTimeoutException after 1 in 60"))
    bank.clock.run(60000)
    assert(!bank.told.isWaiting, "no call asks for more")
    bank.isClosed = false
    bank.tick(h)
    assert(bank.spent == 1.0 && h.operator.isDrained)
  }

  test("what attempts report counts by its unit, those that fail as well") {
    val bank = new Bank(BudgetTerms(Seq("usd" -> 10.0)))
    val h = operator(bank, _.copy(units = UsageUnits(Seq("tokens", "usd")), retry = retry(2, 5)))
    h.process("a")
    bank.answer(h)
    h.future("a").reportUsage("usd", 2.5)
    h.future("a").reportUsage("tokens", 900)
    h.fail("a")
    h.advanceTo(5)
    bank.answer(h)
    h.future("a").reportUsage("usd", 3.5)
    h.answer("a")
    bank.tick(h)
    assert(bank.spent == 6.0 && bank.ledger.charged("").amounts == Seq(6.0))
    h.process("b", "c")
    bank.answer(h)
    assert(h.attempts("b") == 1 && h.attempts("c") == 0, "two more cost six in the mean")
    h.answer("b")
    bank.answer(h)
    h.answer("c")
    assert(h.emitted == Seq("a=>a1", "b=>b1", "c=>c1") && bank.spent == 6.0)
  }
}
