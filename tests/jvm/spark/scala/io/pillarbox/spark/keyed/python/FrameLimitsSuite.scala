package io.pillarbox.spark.keyed.python

import io.pillarbox.state.StateTtlConfig
import io.pillarbox.state.StateTtlConfig._
import org.apache.spark.sql.types.{LongType, StructType}
import org.scalatest.funsuite.AnyFunSuite

/** For which functions the worker holds keys from frame to frame. */
class FrameLimitsSuite extends AnyFunSuite {
  private val long = new StructType().add("value", LongType)
  private val ttl = StateTtlConfig(1000L, OnCreateAndWrite, NeverReturnExpired, EventTime)

  private def state(kind: String, expires: Boolean = false) =
    DeclaredState("s", kind, long, if (kind == "map") long else null, Option.when(expires)(ttl))

  private def holds(form: String, states: DeclaredState*): Boolean = {
    val limits = FrameLimits.of(form, states)
    limits.heldEvents > limits.events
  }

  test("keys are held for lists and maps, not for values alone and not for columns") {
    assert(holds("row", state("value"), state("map")))
    assert(holds("row", state("list"), state("map", expires = true)))
    assert(!holds("row", state("value"), state("reducing")))
    assert(!holds("row"))
    assert(!holds("batch", state("value")))
  }

  test("keys are not held where a list expires") {
    assert(!holds("row", state("map"), state("list", expires = true)))
  }

  test("a frame of columns is larger than one of rows") {
    assert(FrameLimits.of("batch", Nil).events > FrameLimits.of("row", Nil).events)
  }
}
