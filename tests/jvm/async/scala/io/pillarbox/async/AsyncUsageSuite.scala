package io.pillarbox.async

import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.usage.{Usage, UsageUnits}
import org.scalatest.funsuite.AnyFunSuite

class AsyncUsageSuite extends AnyFunSuite {
  private val units = UsageUnits(Seq("tokens", "usd"))
  private val metered = options().copy(units = units, retry = retry(2, 1))

  private def attempt(h: AsyncHarness, input: String) =
    h.future(input).asInstanceOf[CallAttempt[String, String]]

  private def amounts(usage: Usage) = Option(usage).map(used => (used(0), used(1)))

  test("reports add up in the attempt, in its element over attempts, and in the operator") {
    val h = new AsyncHarness(metered)
    h.process("a", "b")
    val first = attempt(h, "a")
    first.reportUsage("tokens", 10)
    first.reportUsage("tokens", 5)
    first.reportUsage("usd", 0.25)
    h.future("a").completeExceptionally(new RuntimeException("again"))
    h.runMail()
    h.advanceTo(10)
    val second = attempt(h, "a")
    assert((second ne first) && amounts(second.usage).isEmpty)
    second.reportUsage("tokens", 7)
    attempt(h, "b").reportUsage("tokens", 1)
    assert(amounts(first.usage).contains((15.0, 0.25)) && amounts(second.usage).contains((7.0, 0.0)))
    assert(amounts(second.element.usage).contains((22.0, 0.25)))
    assert(amounts(h.metrics.usage).contains((23.0, 0.25)))
  }

  test("a report that comes late counts in the operator") {
    val h = new AsyncHarness(metered)
    h.process("a")
    val late = attempt(h, "a")
    late.completeOne("answer")
    h.runMail()
    late.reportUsage("tokens", 3)
    assert(amounts(h.metrics.usage).contains((3.0, 0.0)))
  }

  test("another unit counts, and an amount that is none does not; both are told, and the answer stays") {
    val told = scala.collection.mutable.Buffer.empty[(String, String)]
    val h = new AsyncHarness(metered.copy(oddReport = (unit, amount) => told += unit -> amount.toString))
    h.process("a")
    val first = attempt(h, "a")
    first.reportUsage("tokns", 1)
    Seq(-1.0, Double.NaN, Double.PositiveInfinity, 2.0).foreach(first.reportUsage("usd", _))
    assert(told.toSeq == Seq("tokns" -> "1.0", "usd" -> "-1.0", "usd" -> "NaN", "usd" -> "Infinity"))
    first.completeOne("answer")
    h.runMail()
    assert(h.emitted == Seq("a=>answer"))
    assert(first.element.usage.amounts == Seq("usd" -> 2.0, "tokns" -> 1.0))
    assert(h.metrics.usage.amounts == Seq("usd" -> 2.0, "tokns" -> 1.0))
  }

  test("names of units that calls make up don't fill the memory") {
    val usage = new Usage(units)
    (1 to 1000).foreach(n => usage.add(s"of row $n", 1))
    assert(usage.undeclared.size == 101 && usage.amounts.map(_._2).sum == 1000)
  }

  test("sums stay finite") {
    val h = new AsyncHarness(metered)
    h.process("a", "b")
    Seq("a", "b", "a").foreach(attempt(h, _).reportUsage("usd", 1e308))
    assert(amounts(attempt(h, "a").usage).contains((0.0, Double.MaxValue)))
    assert(amounts(h.metrics.usage).contains((0.0, Double.MaxValue)))
  }
}
