package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}
import io.pillarbox.async.gate.CallGate
import io.pillarbox.spark.SpecBuilder
import org.scalatest.funsuite.AnyFunSuite

class ExecutorGatesSuite extends AnyFunSuite {
  private val limited = spec(_.put("max_concurrency", 2))
  private val perMinute = spec(_.putObject("rate").put("permits", 1).put("interval_ms", 60000))

  private var minutes = 0L
  private def newGates(): ExecutorGates =
    new ExecutorGates(() => TimeUnit.MINUTES.toNanos(minutes), (_, _) => fail("nothing is lent"))

  test("an operator without limits has no gate") {
    assert(newGates().hold("none", spec(identity)).gate eq CallGate.Unlimited)
  }

  test("the tasks of one operator share a gate, those of another have their own") {
    val gates = newGates()
    val first = gates.hold("a", limited)
    assert(gates.hold("a", limited).gate eq first.gate)
    assert(gates.hold("b", limited).gate ne first.gate)
  }

  test("other limits under the same id are another gate") {
    val gates = newGates()
    val first = gates.hold("a", limited)
    assert(gates.hold("a", spec(_.put("max_concurrency", 3))).gate ne first.gate)
  }

  test("the shared gate counts over tasks") {
    val gates = newGates()
    val tasks = Seq.fill(3)(gates.hold("a", limited))
    assert(tasks.map(_.gate.tryAcquire(() => ())) == Seq(true, true, false))
  }

  test("a gate that a task holds stays, however long no other task has asked for it") {
    Seq(limited, perMinute).foreach { spec =>
      val gates = newGates()
      val long = gates.hold("a", spec)
      minutes += 60 * 24
      gates.hold("other", spec).close()
      assert(gates.hold("a", spec).gate eq long.gate)
    }
  }

  test("a gate without holders is forgotten, one of a rate after its interval") {
    val gates = newGates()
    val concurrency, further = gates.hold("a", limited)
    val rate = gates.hold("a", perMinute)
    concurrency.close()
    concurrency.close()
    rate.close()
    assert(gates.size == 2)
    further.close()
    assert(gates.size == 1)
    assert(gates.hold("a", perMinute).gate eq rate.gate)
    minutes += 2
    assert(gates.size == 1)
  }

  test("a rate of which the interval has passed since its last holder is forgotten") {
    val gates = newGates()
    gates.hold("a", perMinute).close()
    minutes += 1
    assert(gates.size == 0)
  }

  test("a gate that adapts keeps what it has learned for some minutes") {
    val gates = newGates()
    val adaptive = spec(_.put("max_concurrency", 10).put("adaptive", true))
    val held = gates.hold("a", adaptive)
    assert(held.gate.tryAcquire(() => ()))
    held.gate.observe(System.nanoTime(), AsyncTimeoutException.attempt(1, 1))
    held.gate.release()
    assert(held.gate.limitNow == 7)
    held.close()
    minutes += 9
    assert(gates.hold("a", adaptive).gate eq held.gate)
  }

  test("with a scope of a task each has a gate of its own") {
    val gates = newGates()
    val own = spec(_.put("max_concurrency", 2).put("scope", "task"))
    val (first, second) = (gates.hold("a", own), gates.hold("a", own))
    assert(first.gate ne second.gate)
    assert(first.limitShare == 2 && second.limitShare == 2 && gates.size == 0)
    first.close()
  }

  test("the shares of those that hold a limit come to it") {
    val gates = newGates()
    assert(gates.hold("none", spec(identity)).limitShare == 0 && gates.hold("b", perMinute).limitShare == 0)
    val tasks = Seq.fill(3)(gates.hold("a", spec(_.put("max_concurrency", 10))))
    assert(tasks.map(_.limitShare).sorted == Seq(3, 3, 4))
    tasks.head.close()
    assert(tasks.map(_.limitShare) == Seq(0, 5, 5))
  }

  test("a rate that a limit beside it adapts is kept for its whole interval, too") {
    val hourly = spec { node =>
      node.put("max_concurrency", 2).put("adaptive", true)
      node.putObject("rate").put("permits", 1).put("interval_ms", TimeUnit.HOURS.toMillis(1))
    }
    val gates = newGates()
    val first = gates.hold("a", hourly)
    first.close()
    minutes += 30
    assert(gates.hold("a", hourly).gate eq first.gate)
  }

  test("a gate that is paused is kept until the pause is over") {
    val adaptive = spec(_.put("max_concurrency", 2).put("adaptive", true))
    val gates = newGates()
    val first = gates.hold("a", adaptive)
    assert(first.gate.tryAcquire(() => ()))
    first.gate.observe(System.nanoTime(), new ComeBackInAnHour)
    first.gate.release()
    first.close()
    minutes += 30
    assert(gates.hold("a", adaptive).gate eq first.gate)
  }

  private def spec(change: ObjectNode => Any): AsyncIOSpec =
    AsyncIOSpec.fromJson(SpecBuilder.json("F", "x int", { node => change(node); () }))
}

private class ComeBackInAnHour extends RuntimeException with RetryAfter {
  override def retryAfterMs: Long = TimeUnit.HOURS.toMillis(1)
}
