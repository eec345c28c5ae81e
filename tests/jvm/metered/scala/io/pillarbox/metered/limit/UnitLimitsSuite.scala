package io.pillarbox.metered.limit

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

class UnitLimitsSuite extends AnyFunSuite {
  private val Minute = TimeUnit.MINUTES.toNanos(1)
  private val Second = TimeUnit.SECONDS.toNanos(1)

  private final class Asking(amounts: Double*)(serve: Permit => Unit) extends CallWaiter {
    @volatile override var permit: Permit = _
    override def estimate(limit: Int): Double = amounts(limit)
    override def run(): Unit = serve(permit)
  }

  private def ask(limiter: Limiter, amounts: Double*)(serve: Permit => Unit): Unit = {
    val waiter = new Asking(amounts: _*)(serve)
    if (limiter.tryAcquire(waiter)) serve(waiter.permit)
  }

  private def end(permit: Permit, used: Double*): Unit = {
    permit.used(used)
    permit.release()
  }

  private def tokens(most: Double, clock: LimitClock): Limiter =
    Limiter.ofUnits(Seq(TestLimit.ofRate(most, Minute, 1, clock) -> 0))

  test("what was charged too much is given back at once, and what was missing is taken from what comes") {
    val clock = new SimulatedClock
    val limiter = tokens(100, clock)
    val permits = mutable.Buffer.empty[(Long, Permit)]
    (1 to 3).foreach(_ => ask(limiter, 50)(permit => permits += ((clock.nowMs, permit))))
    clock.run(40000)
    assert(permits.size == 2, "two fill the minute")
    end(permits(0)._2, 10)
    clock.run(41000)
    assert(permits.size == 2, "there are 40, and it needs 50")
    end(permits(1)._2, 40)
    assert(permits.size == 3)
    end(permits(2)._2, 120)
    // 170 in the minute from 0, 120 of them at 41 s: when these are past there is room again.
    ask(limiter, 1)(permit => permits += ((clock.nowMs, permit)))
    clock.run(100000)
    assert(permits.size == 3)
    clock.run(120000)
    assert(permits.size == 4)
  }

  test("a call that did not begin is charged with nothing") {
    val clock = new SimulatedClock
    val limiter = tokens(100, clock)
    var granted = 0
    (1 to 5).foreach { i =>
      clock.run(i * 10L)
      ask(limiter, 100) { permit =>
        granted += 1
        permit.unused()
      }
    }
    assert(granted == 5)
  }

  test("without an estimate one call goes alone until it has reported, and then each is charged the mean") {
    val clock = new SimulatedClock
    val limiter = tokens(100, clock)
    val permits = mutable.Buffer.empty[Permit]
    (1 to 12).foreach(_ => ask(limiter, Double.NaN)(permits += _))
    clock.run(30000)
    assert(permits.size == 1)
    permits.head.release()
    assert(permits.size == 2, "it reported nothing, and the next goes alone")
    end(permits(1), 10)
    clock.run(88000)
    assert(permits.size > 9 && permits.size <= 12)
  }

  test("while a call waits for one limit it holds nothing of another") {
    val clock = new SimulatedClock
    val concurrency = TestLimit.ofCalls(1, clock)
    val rate = TestLimit.ofRate(10, Minute, 10, clock)
    val limiter = Limiter.ofUnits(
      Seq(concurrency -> Limiter.Calls, rate -> Limiter.Calls, TestLimit.ofRate(100, Minute, 1, clock) -> 0)
    )
    var permits = 0
    ask(limiter, 1, 1, 100) { permit =>
      permits += 1
      end(permit, 100)
    }
    ask(limiter, 1, 1, 100)(_ => permits += 1)
    assert(permits == 1 && concurrency.inUse == 0)
    (1 to 9).foreach(_ => assert(rate.tryAcquire(() => ()), "the second is charged with no call"))
    clock.run(61000)
    assert(permits == 2 && concurrency.inUse == 1)
  }

  test("a service that says less is left makes the limit wait until it says there is more") {
    val clock = new SimulatedClock
    val limiter = tokens(100, clock)
    val at = mutable.Buffer.empty[Long]
    ask(limiter, 10) { permit =>
      permit.told(0, Feedback(remaining = 5, resetNanos = 20 * Second))
      at += clock.nowMs
    }
    clock.run(7000)
    ask(limiter, 5)(_ => at += clock.nowMs)
    ask(limiter, 5)(_ => at += clock.nowMs)
    clock.run(60000)
    assert(at.size == 3 && at(1) == 7000 && at(2) >= 20000 && at(2) < 21000, at)
  }

  test("behind one that is cancelled, one that needs less is served as soon as there is enough for it") {
    val clock = new SimulatedClock
    val limiter = tokens(100, clock)
    val at = mutable.Buffer.empty[Long]
    ask(limiter, 60)(_ => at += clock.nowMs)
    val large = new Asking(100)(_ => fail("was cancelled"))
    assert(!limiter.tryAcquire(large))
    ask(limiter, 10)(_ => at += clock.nowMs)
    clock.run(40000)
    assert(at.size == 1 && limiter.cancel(large))
    clock.run(40100)
    assert(at.size == 2)
  }

  for (seed <- 1 to 30) test(s"random calls under three limits: none is exceeded, seed $seed") {
    val random = new Random(seed)
    val clock = new SimulatedClock
    val (most, calls, atOnce) = (1000.0, 20 + random.nextInt(60), 1 + random.nextInt(20))
    val limiter = Limiter.ofUnits(
      Seq(
        TestLimit.ofCalls(atOnce, clock) -> Limiter.Calls,
        TestLimit.ofRate(calls.toDouble, Minute, 1 + random.nextInt(10).toDouble, clock) -> Limiter.Calls,
        TestLimit.ofRate(most, Minute, 1 + random.nextInt(50).toDouble, clock) -> 0
      )
    )
    val (tokens, starts) = (new UsageOracle(clock), new UsageOracle(clock))
    var underWay = 0
    val isExact = random.nextBoolean()
    def client(): Unit = {
      val estimate =
        if (random.nextInt(10) == 0) random.nextInt(900).toDouble else random.nextInt(60).toDouble
      ask(limiter, 1, 1, estimate) { permit =>
        val start = clock.nanoTime
        underWay += 1
        assert(underWay <= atOnce)
        if (random.nextInt(20) == 0) {
          underWay -= 1
          permit.unused()
          clock.in(1)(client())
        } else
          clock.in(1L + random.nextInt(20000)) {
            val used = if (isExact) estimate else estimate * random.nextDouble() * 1.4
            tokens.add(start, estimate, used, clock.nanoTime)
            starts.add(start, 1, 1, clock.nanoTime)
            underWay -= 1
            end(permit, used)
            client()
          }
      }
    }
    (1 to 10).foreach(_ => client())
    clock.run(20 * 60000)
    tokens.check(most, Minute)
    starts.check(calls.toDouble, Minute)
    assert(starts.total > 20)
  }

  test("of a limit with enough to do more than 97 parts in 100 are used") {
    val clock = new SimulatedClock
    val random = new Random(1)
    val limiter = Limiter.ofUnits(Seq(TestLimit.ofRate(100000, Minute, 100, clock) -> 0))
    val oracle = new UsageOracle(clock)
    def client(): Unit = {
      val used = 1.0 + random.nextInt(500)
      ask(limiter, used * (1 + random.nextDouble())) { permit =>
        val start = clock.nanoTime
        clock.in(500L + random.nextInt(1000)) {
          oracle.add(start, used, used, clock.nanoTime)
          end(permit, used)
          client()
        }
      }
    }
    (1 to 100).foreach(_ => client())
    clock.run(10 * 60000)
    oracle.check(100000, Minute)
    assert(oracle.total > 0.97 * 1000000, oracle.total)
  }
}
