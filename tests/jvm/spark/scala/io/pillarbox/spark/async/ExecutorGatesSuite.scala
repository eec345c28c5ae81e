package io.pillarbox.spark.async

import io.pillarbox.async.CallGate
import io.pillarbox.spark.SpecBuilder
import org.scalatest.funsuite.AnyFunSuite

class ExecutorGatesSuite extends AnyFunSuite {
  private val limited = spec(2)

  test("an operator without limits has no gate") {
    assert(
      ExecutorGates.of(
        "gates-none",
        AsyncIOSpec.fromJson(SpecBuilder.json("F", "x int"))
      ) eq CallGate.Unlimited
    )
  }

  test("the tasks of one operator share a gate, those of another have their own") {
    val first = ExecutorGates.of("gates-a", limited)
    assert(ExecutorGates.of("gates-a", limited) eq first)
    assert(ExecutorGates.of("gates-b", limited) ne first)
  }

  test("the shared gate counts over tasks") {
    val tasks = Seq.fill(3)(ExecutorGates.of("gates-c", limited))
    assert(tasks.map(_.tryAcquire(() => ())) == Seq(true, true, false))
  }

  private def spec(most: Int): AsyncIOSpec =
    AsyncIOSpec.fromJson(SpecBuilder.json("F", "x int", { node => node.put("max_concurrency", most); () }))
}
