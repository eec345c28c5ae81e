package io.pillarbox.metered.limit

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.{AsyncTimeoutException, RetryAfter}
import org.scalatest.funsuite.AnyFunSuite

/** A limit that follows what a service bears. */
class AdaptiveLimitSuite extends AnyFunSuite {
  private val busy = AsyncTimeoutException.attempt(1, 10)

  private class ComeBack(ms: => Long) extends RuntimeException with RetryAfter {
    override def retryAfterMs: Long = ms
  }

  /** Time passes whenever somebody looks. */
  private class TickingClock extends LimitClock {
    var now = 0L
    val tasks = mutable.Buffer.empty[Runnable]

    override def nanoTime: Long = {
      now += 1
      now
    }

    override def schedule(delayNanos: Long, task: Runnable): Unit = tasks += task
  }

  private def take(limiter: Limiter, permits: Int): Unit =
    (1 to permits).foreach(_ => assert(limiter.tryAcquire(() => ())))

  private def end(limiter: Limiter, error: Throwable, startNanos: Long): Unit = {
    limiter.observe(startNanos, error)
    limiter.release()
  }

  test("overload takes three tenths once for all attempts that were under way, and leaves one at least") {
    val clock = new SimulatedClock
    val limiter = TestLimit.adaptive(10, clock)
    assert(limiter.limitNow == 10)
    take(limiter, 10)
    val started = clock.nanoTime
    clock.run(5)
    (1 to 10).foreach(_ => end(limiter, busy, started))
    assert(limiter.limitNow == 7)
    (1 to 20).foreach { i =>
      clock.run(5L + i)
      take(limiter, 1)
      end(limiter, busy, clock.nanoTime)
    }
    assert(limiter.limitNow == 1 && limiter.inUse == 0)
  }

  test("a pause that ends just when somebody comes does not keep it waiting") {
    (-20L to 20L).foreach { before =>
      val clock = new TickingClock
      val limiter = TestLimit.adaptive(1, clock)
      take(limiter, 1)
      end(limiter, new ComeBack(1), 0)
      clock.now = TimeUnit.MILLISECONDS.toNanos(1) - before
      var served = false
      val granted = limiter.tryAcquire(() => served = true)
      clock.now += 100
      clock.tasks.foreach(_.run())
      assert(granted || served, s"$before ns before the end")
    }
  }

  test("answers raise it again by one for as many as are under way, up to where it began") {
    val clock = new SimulatedClock
    val limiter = TestLimit.adaptive(10, clock)
    (1 to 20).foreach { i =>
      clock.run(i.toLong)
      take(limiter, 1)
      end(limiter, busy, clock.nanoTime)
    }
    val limits = (1 to 14).map { _ =>
      val limit = limiter.limitNow
      take(limiter, limit)
      (1 to limit).foreach { _ =>
        limiter.observe(clock.nanoTime, null)
      }
      (1 to limit).foreach(_ => limiter.release())
      limiter.limitNow
    }
    assert(limits.head == 2 && limits.last == 10 && limits.sliding(2).forall(l => l(1) - l(0) <= 1))
  }

  test("answers of a limit that is not made use of say nothing") {
    val clock = new SimulatedClock
    val limiter = TestLimit.adaptive(10, clock)
    take(limiter, 1)
    end(limiter, busy, clock.nanoTime)
    (1 to 100).foreach { _ =>
      take(limiter, 1)
      end(limiter, null, clock.nanoTime)
    }
    assert(limiter.limitNow == 7)
  }

  test("other failures, and calls that were cancelled, say nothing") {
    val limiter = TestLimit.adaptive(2, new SimulatedClock)
    take(limiter, 2)
    end(limiter, new IllegalStateException("no"), 0L)
    limiter.release()
    assert(limiter.limitNow == 2 && limiter.inUse == 0)
  }

  test("nobody begins before the service said to come back") {
    val clock = new SimulatedClock
    val limiter = TestLimit.adaptive(4, clock)
    val served = mutable.Buffer.empty[(Int, Long)]
    val before = clock.nanoTime - 1
    take(limiter, 2)
    end(limiter, new ComeBack(50), clock.nanoTime)
    (1 to 3).foreach(i => assert(!limiter.tryAcquire(() => served += ((i, clock.nowMs)))))
    clock.run(20)
    // A shorter wait that another attempt was told does not end the longer one.
    end(limiter, new ComeBack(10), before)
    clock.run(49)
    assert(served.isEmpty)
    clock.run(60)
    // 4 × 0.7: two at a time.
    assert(served == Seq((1, 50L), (2, 50L)))
    limiter.release()
    assert(served.map(_._1) == Seq(1, 2, 3))
  }

  test("one that can't say when to come back is overload without a wait, and a century is no overflow") {
    val clock = new SimulatedClock
    val limiter = TestLimit.adaptive(4, clock)
    take(limiter, 1)
    end(limiter, new ComeBack(throw new IllegalStateException("broken")), clock.nanoTime)
    assert(limiter.limitNow == 2 && limiter.tryAcquire(() => ()))
    end(limiter, new ComeBack(Long.MaxValue), clock.nanoTime)
    clock.run(1000000)
    assert(!limiter.tryAcquire(() => ()))
  }

  /**
   * Calls of 10 ms in a service that bears `capacity` of them, and answers the rest with overload. `capacity`
   * changes with time.
   */
  private final class Service(random: Random, ceiling: Int, capacity: Long => Int, comeBackMs: Long) {
    val clock = new SimulatedClock
    val limiter = TestLimit.adaptive(ceiling, clock)
    var underWay, answered, refused, most = 0
    private var pausedUntil = 0L
    private var ending = false

    def client(): Unit = if (!ending) {
      val waiter: Runnable = () => call()
      if (limiter.tryAcquire(waiter)) call()
    }

    private def call(): Unit = {
      assert(clock.nowMs >= pausedUntil, "a call began before its time")
      underWay += 1
      most = math.max(most, underWay)
      assert(underWay <= ceiling && limiter.inUse >= underWay)
      val started = clock.nanoTime
      val isBorne = underWay <= capacity(clock.nowMs)
      clock.in(if (isBorne) 8L + random.nextInt(5) else random.nextInt(3).toLong) {
        underWay -= 1
        if (isBorne) answered += 1 else refused += 1
        val error = if (isBorne) null else if (comeBackMs > 0) new ComeBack(comeBackMs) else busy
        if (error != null) pausedUntil = math.max(pausedUntil, clock.nowMs + comeBackMs)
        limiter.observe(started, error)
        limiter.release()
        assert(limiter.limitNow >= 1 && limiter.limitNow <= ceiling)
        client()
      }
    }

    def run(untilMs: Long): Unit = clock.run(untilMs)

    def end(): Unit = {
      ending = true
      clock.run(clock.nowMs + 10000)
    }
  }

  for (seed <- 1 to 20; comeBackMs <- Seq(0L, 7L)) {
    test(s"random clients and services, seed $seed, come back after $comeBackMs ms") {
      val random = new Random(seed)
      val ceiling = 1 + random.nextInt(60)
      val bears = 1 + random.nextInt(60)
      val downFrom = 3000L + random.nextInt(1000)
      val service =
        new Service(
          random,
          ceiling,
          now => if (now >= downFrom && now < downFrom + 2000) 0 else bears,
          comeBackMs
        )
      (1 to ceiling + random.nextInt(40)).foreach(_ => service.client())
      service.run(downFrom)
      val perMs = service.answered / downFrom.toDouble
      val best = math.min(ceiling, bears) / 10.0
      if (comeBackMs == 0) assert(perMs > 0.6 * best, s"$perMs calls a ms of $best")
      service.run(downFrom + 1000)
      val (answered, refused) = (service.answered, service.refused)
      // While it is down one call at a time asks.
      service.most = 0
      service.run(downFrom + 1990)
      assert(service.answered == answered && service.refused > refused && service.most == 1)
      service.run(downFrom + 4000)
      assert(service.answered > answered + 100)
      service.end()
      assert(service.limiter.inUse == 0)
    }
  }
}
