package io.pillarbox.spark.async

import scala.collection.mutable

import com.fasterxml.jackson.databind.ObjectMapper
import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.base.SpecJson
import org.scalatest.Outcome
import org.scalatest.funsuite.AnyFunSuite

class UsageRegistrySuite extends AnyFunSuite {
  private val said = mutable.Buffer.empty[String]
  private var registry: UsageRegistry = _

  override def withFixture(test: NoArgTest): Outcome = {
    registry = new UsageRegistry(said += _)
    super.withFixture(test)
  }

  /** Amounts are calls, their rows, retries, rate-limited, from the journal, shared, ms of waiting, and tokens. */
  private def tell(run: String, source: String, isDone: Boolean, amounts: Double*): Unit =
    registry.onUsage(
      Array(run, "id", "score", "async_io(score)", source),
      amounts.toArray,
      Array("tokens"),
      isDone
    )

  private def told(json: String): Seq[(Long, Long, Double)] = {
    val list = new ObjectMapper().readTree(json)
    (0 until list.size).map(list.get).map { one =>
      (one.get("calls").asLong, one.get("shared").asLong, one.get("usage").path("tokens").asDouble)
    }
  }

  test("of a task the last report counts, and a task that has ended goes on counting") {
    tell("q", "a", isDone = false, 3, 3, 0, 0, 0, 1, 0, 10)
    tell("q", "a", isDone = false, 5, 5, 0, 0, 0, 1, 0, 30)
    assert(told(registry.ofQuery("q")) == Seq((5L, 1L, 30.0)))
    tell("q", "b", isDone = false, 1, 1, 0, 0, 0, 0, 0, 0.5)
    tell("q", "a", isDone = true, 7, 7, 0, 0, 0, 2, 0, 50)
    assert(told(registry.ofQuery("q")) == Seq((8L, 2L, 50.5)))
    assert(told(registry.ofQuery("another")).isEmpty)
  }

  test("an operator has the sum of all runs, and one without any") {
    val spec = SpecJson.read[AsyncIOSpec](
      SpecBuilder.json("x.Y", "y int", _.put("name", "score").put("operator_id", "id"): Unit)
    )
    assert(told(registry.ofOperators(Seq(spec))) == Seq((0L, 0L, 0.0)))
    tell("1", "a", isDone = true, 7, 7, 0, 0, 0, 2, 0, 50)
    tell("2", "b", isDone = false, 1, 1, 0, 0, 0, 0, 0, 4)
    assert(told(registry.ofOperators(Seq(spec, spec))) == Seq((8L, 2L, 54.0)))
  }

  test("units add up by name, whatever the order in which tasks tell them") {
    def tell(source: String, units: (String, Double)*) = {
      val (names, amounts) = units.unzip
      val about = Array("q", "id", "score", "async_io(score)", source)
      registry.onUsage(about, Array(1.0, 1, 0, 0, 0, 0, 0) ++ amounts, names.toArray, isDone = true)
    }
    tell("a", "tokens" -> 1.0, "usd" -> 2.0)
    tell("b", "usd" -> 3.0)
    tell("c")
    val usage = new ObjectMapper().readTree(registry.ofQuery("q")).get(0).get("usage")
    assert(usage.toString == """{"tokens":1.0,"usd":5.0}""")
  }

  test("the end of a run is a line of what there was") {
    tell("1", "a", isDone = true, 2284, 68520, 284, 216, 120, 40, 41200, 1234567)
    tell("2", "b", isDone = true, 1, 1, 0, 0, 0, 0, 0, 0.125)
    registry.ended("1")
    registry.ended("2")
    registry.ended("3")
    assert(
      said.toSeq == Seq(
        "async_io(score): 2,284 calls for 68,520 rows, 284 retries, 216 rate-limited, 120 answers from the " +
          "journal, 40 " +
          "shared, 41.2 s of waiting for limits, 1,234,567 tokens",
        "async_io(score): 1 call, 0.13 tokens"
      )
    )
  }
}
