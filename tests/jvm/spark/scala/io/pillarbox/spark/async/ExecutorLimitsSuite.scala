package io.pillarbox.spark.async

import java.util.concurrent.TimeUnit

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}
import io.pillarbox.metered.lease.{LimitValue, TestLending}
import io.pillarbox.metered.limit.{LimitClock, Limiter, Overload}
import org.scalatest.funsuite.AnyFunSuite

class ExecutorLimitsSuite extends AnyFunSuite {
  private val limited = calls(2)
  private val perMinute = LimitSpec(None, Some(RateSpec(1, 60000)), LimitScope.Executor)

  private var minutes = 0L
  private def newGates(): ExecutorLimits =
    new ExecutorLimits(() => TimeUnit.MINUTES.toNanos(minutes), (_, _, _) => fail("nothing is lent"))

  private def hold(limiters: ExecutorLimits, key: String, limit: LimitSpec): HeldLimits =
    limiters.hold(Seq(key), Seq(limit), Nil)

  test("one limit that is there twice is refused") {
    val problem =
      intercept[IllegalArgumentException](newGates().hold(Seq("a", "a"), Seq(limited, limited), Nil))
    assert(problem.getMessage.contains("twice") && problem.getMessage.contains("concurrency=2"))
  }

  test("an operator without limits has no limiter") {
    assert(newGates().hold(Nil, Nil, Nil).limiter eq Limiter.Unlimited)
  }

  test("the tasks of one operator share a limiter, those of another have their own") {
    val limiters = newGates()
    val first = hold(limiters, "a", limited)
    assert(hold(limiters, "a", limited).limiter eq first.limiter)
    assert(hold(limiters, "b", limited).limiter ne first.limiter)
  }

  test("other limits under the same id are another limiter") {
    val limiters = newGates()
    val first = hold(limiters, "a", limited)
    assert(hold(limiters, "a", calls(3)).limiter ne first.limiter)
  }

  test("the shared limiter counts over tasks") {
    val limiters = newGates()
    val tasks = Seq.fill(3)(hold(limiters, "a", limited))
    assert(tasks.map(_.limiter.tryAcquire(() => ())) == Seq(true, true, false))
  }

  test("a limiter that a task holds stays, however long no other task has asked for it") {
    Seq(limited, perMinute).foreach { spec =>
      val limiters = newGates()
      val long = hold(limiters, "a", spec)
      minutes += 60 * 24
      hold(limiters, "other", spec).close()
      assert(hold(limiters, "a", spec).limiter eq long.limiter)
    }
  }

  test("of a rate of calls each counts as a whole: half a one a second is one in two") {
    def of(permits: Double, ms: Long, isOfUse: Boolean = false) = RateSpec(permits, ms).amountIn(isOfUse)
    assert(of(0.5, 1000) == ((1.0, 2000000000L)) && of(500, 1000) == ((500.0, 1000000000L)))
    assert(of(2.5, 60000) == ((2.0, 48000000000L)) && of(2.5, 1000, isOfUse = true) == ((2.5, 1000000000L)))
    assert(of(1e-300, 86400000)._2 == Overload.LongestPauseNanos)
  }

  test("a limiter without holders is forgotten, one of a rate after its interval") {
    val limiters = newGates()
    val concurrency, further = hold(limiters, "a", limited)
    val rate = hold(limiters, "a", perMinute)
    concurrency.close()
    concurrency.close()
    rate.close()
    assert(limiters.size == 2)
    further.close()
    assert(limiters.size == 1)
    assert(hold(limiters, "a", perMinute).limiter eq rate.limiter)
    minutes += 2
    assert(limiters.size == 1)
  }

  test("a rate of which the interval has passed since its last holder is forgotten") {
    val limiters = newGates()
    hold(limiters, "a", perMinute).close()
    minutes += 2
    assert(limiters.size == 0)
  }

  test("a limiter that adapts keeps what it has learned for some minutes") {
    val limiters = newGates()
    val adaptive = calls(10).copy(adaptive = true)
    val held = hold(limiters, "a", adaptive)
    assert(held.limiter.tryAcquire(() => ()))
    held.limiter.observe(System.nanoTime(), AsyncTimeoutException.attempt(1, 1))
    held.limiter.release()
    assert(held.limiter.limitNow == 7)
    held.close()
    minutes += 9
    assert(hold(limiters, "a", adaptive).limiter eq held.limiter)
  }

  test("with a scope of a task each has a limiter of its own") {
    val limiters = newGates()
    val own = calls(2).copy(scope = LimitScope.Task)
    val (first, second) = (hold(limiters, "a", own), hold(limiters, "a", own))
    assert(first.limiter ne second.limiter)
    assert(first.limitShare == 2 && second.limitShare == 2 && limiters.size == 0)
    first.close()
  }

  test("the shares of those that hold a limit come to it") {
    val limiters = newGates()
    assert(limiters.hold(Nil, Nil, Nil).limitShare == 0 && hold(limiters, "b", perMinute).limitShare == 0)
    val tasks = Seq.fill(3)(hold(limiters, "a", calls(10)))
    assert(tasks.map(_.limitShare).sorted == Seq(3, 3, 4))
    tasks.head.close()
    assert(tasks.map(_.limitShare) == Seq(0, 5, 5))
  }

  test("a rate that a limit beside it adapts is kept for its whole interval, too") {
    val rate = RateSpec(1, TimeUnit.HOURS.toMillis(1))
    val hourly = calls(2).copy(rate = Some(rate), adaptive = true)
    val limiters = newGates()
    val first = hold(limiters, "a", hourly)
    first.close()
    minutes += 30
    assert(limiters.size == 1)
    minutes += 31
    assert(limiters.size == 0)
  }

  test("a limiter that is paused is kept until the pause is over") {
    val adaptive = calls(2).copy(adaptive = true)
    val limiters = newGates()
    val first = hold(limiters, "a", adaptive)
    assert(first.limiter.tryAcquire(() => ()))
    first.limiter.observe(System.nanoTime(), new ComeBackInAnHour)
    first.limiter.release()
    first.close()
    minutes += 30
    assert(hold(limiters, "a", adaptive).limiter eq first.limiter)
  }

  test("several limits hold together, each with its own holders") {
    val limiters = newGates()
    val tokens = LimitSpec(None, Some(RateSpec(10, 60000)), LimitScope.Executor, unit = "tokens")
    val both = limiters.hold(Seq("a", "a/tokens"), Seq(limited, tokens), Seq("usd", "tokens"))
    val one = hold(limiters, "a", limited)
    assert(both.limiter.limitNow == 2 && one.limitShare == 1 && both.limitShare == 1)
    assert(both.charges("op", Nil).isDefined && one.charges("op", Nil).isEmpty)
    both.close()
    assert(one.limitShare == 2)
    val other = tokens.copy(estimate = Some(5.0))
    limiters.hold(Seq("a/tokens"), Seq(other), Seq("tokens"))
    assert(limiters.size == 2, "an estimate is an operator's own, and the limit is the same")
  }

  private val tenant = calls(2).copy(key = Some("tenant"))

  private def open(held: HeldLimits, value: Long) = held.open(Seq(LimitValue(0, value)))

  private def taken(limiter: Limiter): Int =
    Iterator.continually(limiter.tryAcquire(() => ())).takeWhile(identity).size

  test("each value of a key has its limiter, which tasks share while they have calls of it") {
    val limiters = newGates()
    val (one, other) = (hold(limiters, "a", tenant), hold(limiters, "a", tenant))
    assert(one.limiter eq Limiter.Unlimited)
    val (first, second, third) = (open(one, 1), open(other, 1), open(one, 2))
    assert(
      taken(first.limiter) == 2 && taken(second.limiter) == 0 && taken(
        third.limiter
      ) == 2 && limiters.size == 2
    )
    (1 to 2).foreach(_ => first.limiter.release())
    first.close()
    assert(limiters.size == 2)
    second.close()
    assert(limiters.size == 1)
    other.close()
    one.close()
    assert(limiters.size == 0, "a task that ends closes its values")
  }

  test("100,000 values one after another leave none, and of a rate those that still count") {
    val limiters = newGates()
    val (concurrency, rate) =
      (hold(limiters, "a", tenant), hold(limiters, "b", perMinute.copy(key = Some("k"))))
    for (value <- 1L to 100000L) {
      open(concurrency, value).close()
      if (value % 100 == 0) open(rate, value).close()
      if (value % 10000 == 0) minutes += 1
    }
    assert(limiters.size <= 200)
    minutes += 2
    assert(limiters.size == 0)
  }

  test("a value of a lent rate that comes again after it was given back is the same for the driver") {
    var lent = 0
    val limiters = new ExecutorLimits(
      () => TimeUnit.MINUTES.toNanos(minutes),
      (_, terms, _) => {
        lent += 1
        TestLending.limit(terms, LimitClock.System)((_, _) => ())
      }
    )
    val held = hold(limiters, "a", perMinute.copy(scope = LimitScope.Query, key = Some("tenant")))
    (1 to 10).foreach(_ => open(held, 1).close())
    assert(lent == 1)
    assert(limiters.size == 0, "it is forgotten as it was given back")
    open(held, 1).close()
    assert(lent == 2)
  }

  test("a value's rate is kept while it counts, and then made anew") {
    val limiters = newGates()
    val held = hold(limiters, "a", perMinute.copy(key = Some("tenant")))
    val first = open(held, 1)
    assert(taken(first.limiter) == 1)
    first.close()
    val again = open(held, 1)
    assert(taken(again.limiter) == 0)
    again.close()
    minutes += 2
    assert(taken(open(held, 1).limiter) == 1)
  }

  test("limits with keys and without hold together, also of several keys, and of a task alone") {
    val limiters = newGates()
    val limits = Seq(
      calls(3),
      tenant.copy(scope = LimitScope.Task),
      calls(2).copy(key = Some("region"), breaker = Some(BreakerSpec(1, 60000)))
    )
    def hold() = limiters.hold(Seq("a", "a/tenant", "a/region"), limits, Nil)
    val (one, other) = (hold(), hold())
    def open(held: HeldLimits, tenant: Long, region: Long) =
      held.open(Seq(LimitValue(0, tenant), LimitValue(0, region)))
    val values = Seq(open(one, 1, 1), open(one, 1, 2), open(other, 1, 2))
    assert(values.map(value => taken(value.limiter)) == Seq(2, 0, 1))
    assert(one.limitShare == 1 && other.limitShare == 2)
    values(0).limiter.observe(System.nanoTime(), AsyncTimeoutException.attempt(1, 1))
    values(0).close()
    var openings = 0
    one.takeBreakerCounts((times, _) => openings += times)
    assert(openings == 1, "a value that was closed counts, too")
  }

  private def calls(concurrency: Int) = LimitSpec(Some(concurrency), None, LimitScope.Executor)
}

private class ComeBackInAnHour extends RuntimeException with RetryAfter {
  override def retryAfterMs: Long = TimeUnit.HOURS.toMillis(1)
}
