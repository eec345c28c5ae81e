package io.pillarbox.async

import io.pillarbox.async.AsyncHarness._
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

  test("another unit, and an amount that is none, are refused") {
    val h = new AsyncHarness(metered)
    h.process("a")
    val refused = intercept[IllegalArgumentException](attempt(h, "a").reportUsage("tokns", 1))
    assert(refused.getMessage.contains("no unit tokns; it has tokens, usd"))
    Seq(-1.0, Double.NaN, Double.PositiveInfinity).foreach { amount =>
      assertThrows[IllegalArgumentException](attempt(h, "a").reportUsage("usd", amount))
    }
    assert(amounts(h.metrics.usage).contains((0.0, 0.0)))
  }

  test("an amount whose sum is not finite is refused, and sums over calls stay finite") {
    val h = new AsyncHarness(metered)
    h.process("a", "b")
    Seq("a", "b").foreach(attempt(h, _).reportUsage("usd", 1e308))
    val refused = intercept[IllegalArgumentException](attempt(h, "a").reportUsage("usd", 1e308))
    assert(refused.getMessage.contains("a finite number from 0 on"))
    assert(amounts(attempt(h, "a").usage).contains((0.0, 1e308)))
    assert(amounts(h.metrics.usage).contains((0.0, Double.MaxValue)))
  }
}
