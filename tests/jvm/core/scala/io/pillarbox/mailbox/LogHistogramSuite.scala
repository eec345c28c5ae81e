package io.pillarbox.mailbox

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class LogHistogramSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  test("a quantile is at most an eighth above the true one and never below; max and mean are exact") {
    val value = Gen.oneOf(Gen.choose(0L, 20L), Gen.choose(0L, 1000000L), Gen.choose(0L, Long.MaxValue / 1000))
    forAll(Gen.nonEmptyListOf(value), Gen.choose(0.0, 1.0)) { (values, q) =>
      val histogram = new LogHistogram
      values.foreach(histogram.record)
      val rank = math.max(1, math.ceil(q * values.size).toInt)
      val exact = values.sorted.apply(rank - 1)
      val answer = histogram.quantile(q)
      assert(answer >= exact && answer <= exact + exact / 8 + 1)
      assert(histogram.max == values.max && histogram.count == values.size)
      assert(math.abs(histogram.mean - values.map(_.toDouble).sum / values.size) <= 1 + histogram.mean * 1e-9)
    }
  }

  test("an empty histogram answers zero, a negative value counts as zero, the largest long fits") {
    val histogram = new LogHistogram
    assert(histogram.quantile(0.99) == 0 && histogram.mean == 0.0)
    histogram.record(-5)
    assert(histogram.quantile(1.0) == 0)
    histogram.record(Long.MaxValue)
    assert(histogram.quantile(1.0) == Long.MaxValue)
  }

  test("a quantile outside 0 to 1 is refused") {
    assert(intercept[IllegalArgumentException](new LogHistogram().quantile(1.5)).getMessage.contains("1.5"))
  }
}
