package io.pillarbox.spark.keyed.python

import io.pillarbox.spark.state.TtlSpec
import org.apache.spark.sql.types.{LongType, StructType}
import org.scalatest.funsuite.AnyFunSuite

/** For which functions the worker holds keys from frame to frame. */
class FrameLimitsSuite extends AnyFunSuite {
  private val long = new StructType().add("value", LongType)
  private val ttl = TtlSpec(1000L, timeDomain = "event_time")

  private def state(kind: String, expires: Boolean = false) =
    DeclaredState("s", kind, None, long, Option.when(kind == "map")(long), Option.when(expires)(ttl))

  private def holds(form: String, states: DeclaredState*): Boolean = {
    val limits = FrameLimits.of(form, states, 0)
    limits.heldEvents > limits.events
  }

  test("keys are held for lists and maps, not for values alone and not for columns") {
    assert(holds("row", state("value"), state("map")))
    assert(holds("row", state("list"), state("map", expires = true)))
    assert(holds("row", state("list", expires = true)))
    assert(!holds("row", state("value"), state("reducing")))
    assert(!holds("row"))
    assert(!holds("arrow", state("value")))
  }

  test("a frame has no more rows than the user allows, whatever its form") {
    assert(FrameLimits.of("row", Nil, 100).rows == 100)
    assert(FrameLimits.of("row", Nil, 0).rows == Int.MaxValue)
    assert(FrameLimits.of("arrow", Nil, 100) == FrameLimits(100, 100, 100))
    assert(FrameLimits.of("arrow", Nil, 1 << 30) == FrameLimits.of("arrow", Nil, 0))
  }

  test("a frame of columns is larger than one of rows") {
    assert(FrameLimits.of("arrow", Nil, 0).events > FrameLimits.of("row", Nil, 0).events)
  }
}
