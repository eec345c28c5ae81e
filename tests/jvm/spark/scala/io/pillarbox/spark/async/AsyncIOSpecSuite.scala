package io.pillarbox.spark.async

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.async.{Batching, CallFigures}
import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.base.SpecJson
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

class AsyncIOSpecSuite extends AnyFunSuite {

  test("what is left out is off") {
    val spec = SpecJson.read[AsyncIOSpec](SpecBuilder.json("com.acme.F", "x long"))
    assert(spec.className.contains("com.acme.F"))
    assert(spec.returns == StructType.fromDDL("x long"))
    assert(spec.figures == CallFigures(ordered = true, 10, 100, 0, 0, None, 0))
    assert(spec.retry.isEmpty && spec.limits.isEmpty && spec.carryOver.isEmpty)
    assert(!spec.explode)
  }

  test("every option is read, and explain shows what Python shows of them") {
    val spec = SpecJson.read[AsyncIOSpec](SpecBuilder.json("F", "x long, y string", all))
    assert(spec.options == Map("url" -> "http://service"))
    assert(spec.retry.contains(RetrySpec(3, 100, 2.0, 30000, 0.1, Set.empty, refusesResults = false)))
    val tokens = LimitSpec(
      None,
      Some(RateSpec(0.5, 60000)),
      LimitScope.Application,
      unit = "tokens",
      estimateSql = Some("length(a)"),
      name = Some("ai")
    )
    assert(spec.limits == Seq(LimitSpec(Some(8), Some(RateSpec(50, 1000)), LimitScope.Query), tokens))
    assert(spec.figures == CallFigures(ordered = false, 7, 0, 5000, 1000, Some(Batching(20, 10)), 1))
    assert(spec.carryOver.contains(CarryOverSpec(60000, None, Some(4))))
    assert(spec.onError == OnError.Column && spec.errorColumn.contains("why"))
    assert(spec.inputs == Seq("id"))
    val shown = "test, form=jvm, ordered=false, capacity=7, on_error=column, by=id"
    assert(spec.summary.mkString(", ") == shown + ", carry_over=(slots=4)")
    assert(spec.withoutCarryOver.summary.mkString(", ") == shown)
  }

  test("JSON null is the same as left out") {
    val spec =
      SpecJson.read[AsyncIOSpec](SpecBuilder.json("F", "x long", { node => node.putNull("retry"); () }))
    assert(spec.retry.isEmpty)
  }

  test("an unknown on_error is refused with its value") {
    val json = SpecBuilder.json("F", "x long", { node => node.put("on_error", "ignore"); () })
    val error = intercept[IllegalArgumentException](SpecJson.read[AsyncIOSpec](json))
    assert(error.getMessage.contains("'ignore'"))
  }

  Seq[(String, ObjectNode => Any)](
    "capacity" -> (_.put("capacity", 1L << 32)),
    "concurrency" -> (_.putArray("limits").addObject().put("concurrency", 4294967297L)),
    "batch" -> (_.putObject("batching").put("size", 1.5)),
    "retry" -> (_.putObject("retry").put("max_attempts", 4294967297L))
  ).foreach { case (option, change) =>
    test(s"a number that does not fit is refused, not cut: $option") {
      val json = SpecBuilder.json("F", "x long", { node => change(node); () })
      val error = intercept[IllegalArgumentException](SpecJson.read[AsyncIOSpec](json))
      assert(error.getMessage.contains("Not as expected"))
    }
  }

  test("a field that is missing, or that nobody knows, is refused by its name") {
    def refused(json: String) =
      intercept[IllegalArgumentException](SpecJson.read[AsyncIOSpec](json)).getMessage
    val json = SpecBuilder.json("F", "x long")
    assert(refused(json.replace("\"capacity\":10,", "")).contains("capacity"))
    assert(refused(json.replace("\"capacity\":10,", "\"capacity\":10,\"capcity\":1,")).contains("capcity"))
  }

  Seq("capacity", "ordered", "name", "limits", "returns", "on_error").foreach { field =>
    test(s"null is refused where a value must be: $field") {
      val json = SpecBuilder.json("F", "x long", { node => node.putNull(field); () })
      val error = intercept[IllegalArgumentException](SpecJson.read[AsyncIOSpec](json))
      assert(error.getMessage.contains(field))
    }
  }

  private def all(node: ObjectNode): Unit = {
    node
      .put("ordered", false)
      .put("capacity", 7)
      .put("total_timeout_ms", 5000)
      .put("attempt_timeout_ms", 1000)
      .put("on_error", "column")
      .put("error_column", "why")
      .put("explode", true)
      .put("calls_per_key", 1)
    node.putObject("journal").put("path", "/answers").put("ttl_ms", 1000)
    node.putArray("by").add("id")
    node.putArray("shown").add("by=id").add("carry_over=(slots=4)")
    node.putArray("call_key").add("id")
    node.putObject("batching").put("size", 20).put("wait_ms", 10)
    node.putObject("carry_over").put("max_lag_ms", 60000).put("slots", 4)
    node.putObject("options").put("url", "http://service")
    node.putArray("inputs").add("id")
    val limits = node.putArray("limits")
    limits
      .addObject()
      .put("concurrency", 8)
      .putObject("rate")
      .put("permits", 50)
      .put("interval_ms", 1000)
    limits
      .addObject()
      .put("scope", "application")
      .put("unit", "tokens")
      .put("estimate_sql", "length(a)")
      .put("name", "ai")
      .putObject("rate")
      .put("permits", 0.5)
      .put("interval_ms", 60000)
    node
      .putObject("retry")
      .put("max_attempts", 3)
      .put("backoff_ms", 100)
      .put("multiplier", 2.0)
      .put("max_backoff_ms", 30000)
      .put("jitter", 0.1)
    ()
  }
}
