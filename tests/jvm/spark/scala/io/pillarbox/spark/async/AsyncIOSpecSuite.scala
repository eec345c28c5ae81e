package io.pillarbox.spark.async

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.SpecBuilder
import org.apache.spark.sql.types.StructType
import org.scalatest.funsuite.AnyFunSuite

class AsyncIOSpecSuite extends AnyFunSuite {

  test("what is left out is off") {
    val spec = AsyncIOSpec.fromJson(SpecBuilder.json("com.acme.F", "x long"))
    assert(spec.className.contains("com.acme.F"))
    assert(spec.returns == StructType.fromDDL("x long"))
    assert(spec.timeoutMs == 0 && spec.attemptTimeoutMs == 0)
    assert(spec.retry.isEmpty && spec.limits.isEmpty && spec.batch.isEmpty && spec.carryOver.isEmpty)
    assert(!spec.explode)
  }

  test("every option is read, and shown by explain") {
    val spec = AsyncIOSpec.fromJson(SpecBuilder.json("F", "x long, y string", all))
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
    assert(spec.batch.contains(BatchSpec(20, 10)))
    assert(spec.carryOver.contains(CarryOverSpec(60000, None, Some(4))))
    assert(spec.onError == OnError.Column && spec.errorColumn.contains("why"))
    assert(spec.inputs == Seq("id"))
    val shown = "test, form=jvm, ordered=false, capacity=7, timeout=5000ms attempt=1000ms, retry=3x 100ms, " +
      "on_error=column, limit=(concurrency=8 per_second=50 scope=query), " +
      "limit=(per_minute=0.5 unit=tokens estimate=length(a) name=ai scope=application), " +
      "limit=(concurrency=1 scope=key), batch_size=20, explode=true, by=[id], carry_over=(max_lag=60000ms slots=4), " +
      "journal=/answers ttl=1000ms, call_key=[id]"
    assert(spec.summary.mkString(", ") == shown)
  }

  test("JSON null is the same as left out") {
    val spec = AsyncIOSpec.fromJson(SpecBuilder.json("F", "x long", { node => node.putNull("retry"); () }))
    assert(spec.retry.isEmpty)
  }

  test("an unknown on_error is refused with its value") {
    val json = SpecBuilder.json("F", "x long", { node => node.put("on_error", "ignore"); () })
    val error = intercept[IllegalArgumentException](AsyncIOSpec.fromJson(json))
    assert(error.getMessage.contains("'ignore'"))
  }

  Seq[(String, ObjectNode => Any)](
    "capacity" -> (_.put("capacity", 1L << 32)),
    "concurrency" -> (_.putArray("limits").addObject().put("concurrency", 4294967297L)),
    "batch" -> (_.putObject("batch").put("rows", 1.5)),
    "retry" -> (_.putObject("retry").put("max_attempts", 4294967297L))
  ).foreach { case (option, change) =>
    test(s"a number that does not fit is refused, not cut: $option") {
      val json = SpecBuilder.json("F", "x long", { node => change(node); () })
      val error = intercept[IllegalArgumentException](AsyncIOSpec.fromJson(json))
      assert(error.getMessage.contains("Not as expected"))
    }
  }

  test("a field that is missing, or that nobody knows, is refused by its name") {
    def refused(json: String) = intercept[IllegalArgumentException](AsyncIOSpec.fromJson(json)).getMessage
    val json = SpecBuilder.json("F", "x long")
    assert(refused(json.replace("\"capacity\":10,", "")).contains("capacity"))
    assert(refused(json.replace("\"capacity\":10,", "\"capacity\":10,\"capcity\":1,")).contains("capcity"))
  }

  private def all(node: ObjectNode): Unit = {
    node
      .put("ordered", false)
      .put("capacity", 7)
      .put("timeout_ms", 5000)
      .put("attempt_timeout_ms", 1000)
      .put("on_error", "column")
      .put("error_column", "why")
      .put("explode", true)
      .put("calls_per_key", 1)
    node.putObject("journal").put("path", "/answers").put("ttl_ms", 1000)
    node.putArray("by").add("id")
    node.putArray("call_key").add("id")
    node.putObject("batch").put("rows", 20).put("wait_ms", 10)
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
