package io.pillarbox.metered.limit

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.pillarbox.api.AsyncTimeoutException
import org.scalatest.funsuite.AnyFunSuite

/** A limiter that stops calls to a service that is down. */
class BreakerSuite extends AnyFunSuite {
  private val busy = AsyncTimeoutException.attempt(1, 10)
  private val other = new RuntimeException("400")
  private def seconds(n: Int) = TimeUnit.SECONDS.toNanos(n.toLong)

  /** Calls that wait at the limiter go on by themselves, and end when the test says. */
  private final class World(failures: Int, around: Limiter => Limiter = identity) {
    val clock = new SimulatedClock
    val breaker = TestLimit.ofBreaker(failures, seconds(30), clock)
    val limiter: Limiter = around(breaker)
    val underWay = mutable.Queue.empty[Long]
    private var begun = 0

    def ask(calls: Int): Unit = (1 to calls).foreach { _ =>
      // No two begin at one time.
      val call: Runnable = () => {
        begun += 1
        underWay += clock.nanoTime - 1000 + begun
      }
      if (limiter.tryAcquire(call)) call.run()
    }

    def end(errors: Throwable*): Unit = errors.foreach { error =>
      limiter.observe(underWay.dequeue(), error)
      limiter.release()
    }

    def counts: (Int, Long) = {
      var found = (0, 0L)
      breaker.takeBreakerCounts((times, nanos) => found = (times, nanos))
      found
    }
  }

  test("so many failures in a row stop all calls; after the pause one tries, and its answer lets all go on") {
    val world = new World(3)
    world.ask(5)
    world.end(busy, busy)
    world.ask(2)
    assert(world.underWay.size == 5)
    world.end(busy)
    world.ask(4)
    assert(world.underWay.size == 4 && !world.limiter.mayBegin)
    world.clock.run(29999)
    assert(world.underWay.size == 4)
    // Those of before say nothing any more.
    world.end(null, busy, null, busy)
    world.clock.run(30001)
    assert(world.underWay.size == 1)
    world.end(null)
    assert(world.underWay.size == 3 && world.counts == ((1, TimeUnit.MILLISECONDS.toNanos(30001))))
    world.ask(1)
    assert(world.underWay.size == 4 && world.counts == ((0, 0L)))
  }

  test("answers begin the count anew, and other failures say nothing") {
    val world = new World(3)
    world.ask(10)
    world.end(busy, busy, null, busy, other, busy, other)
    world.ask(1)
    assert(world.underWay.size == 4)
    world.end(busy)
    world.ask(1)
    assert(world.underWay.size == 3)
  }

  test("as long as those that try meet overload, one tries for each pause") {
    val world = new World(1)
    world.ask(1)
    world.end(busy)
    world.ask(5)
    (1 to 10).foreach { n =>
      world.clock.run(30000L * n + n)
      assert(world.underWay.size == 1, s"try $n")
      world.end(busy)
      assert(world.underWay.isEmpty)
      world.ask(1)
    }
    val (times, nanos) = world.counts
    assert(times == 1 && nanos == TimeUnit.MILLISECONDS.toNanos(300010))
  }

  test("after a failure that says nothing another one tries at once, and after a try that hangs later") {
    val world = new World(1)
    world.ask(1)
    world.end(busy)
    world.ask(5)
    world.clock.run(30000)
    world.end(other)
    assert(world.underWay.size == 1)
    world.clock.run(59999)
    assert(world.underWay.size == 1)
    world.clock.run(60000)
    assert(world.underWay.size == 2)
  }

  test("beside other limits a try that gets no permit there is no try") {
    val slots = TestLimit.ofCalls(2)
    val world = new World(1, breaker => Limiter.all(breaker, slots))
    world.ask(2)
    world.end(busy)
    world.ask(3)
    world.clock.run(30000)
    assert(world.underWay.size == 2)
    // The other of the first two still has its permit; the one that tries has the second.
    world.end(null)
    assert(world.underWay.size == 1)
    world.end(null)
    assert(world.underWay.size == 2 && slots.inUse == 2)
    world.end(null, null)
    assert(world.underWay.isEmpty && slots.inUse == 0 && world.breaker.inUse == 0)
  }

  test("another one tries in the place of one that was let go and did not begin") {
    val world = new World(1)
    world.ask(1)
    world.end(busy)
    world.clock.run(30000)
    final class Trial extends CallWaiter {
      @volatile override var permit: Permit = _
      override def estimate(limit: Int): Double = Double.NaN
      @volatile var hasRun = false
      override def run(): Unit = hasRun = true
    }
    val limiter = Limiter.all(world.breaker)
    val (first, second) = (new Trial, new Trial)
    assert(limiter.tryAcquire(first) && !limiter.tryAcquire(second))
    first.permit.unused()
    assert(second.hasRun && world.breaker.inUse == 1)
  }

  test("a call of many rows that fails counts once, whatever its rows' errors") {
    val world = new World(2)
    def fails(errors: Throwable*): Unit = {
      assert(world.limiter.tryAcquire(() => ()))
      val permit = new SharedPermit(world.limiter, errors.size)
      errors.foreach { error =>
        permit.observe(world.clock.nanoTime, error)
        permit.release()
        world.clock.run(world.clock.nowMs + 1)
      }
    }
    fails(other, busy, busy, null, busy)
    assert(world.limiter.mayBegin)
    fails(busy, busy)
    assert(!world.limiter.mayBegin && world.counts._1 == 1)
  }
}
