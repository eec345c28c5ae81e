package io.pillarbox.metered.limit

import java.util.concurrent.ThreadLocalRandom
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import scala.collection.mutable

import io.pillarbox.mailbox.MailboxTesting
import io.pillarbox.metered.lease.{LimitGrant, TestLending}
import org.scalatest.funsuite.AnyFunSuite

class LimiterSuite extends AnyFunSuite {

  private final class Waiter(name: String, log: mutable.Buffer[String]) extends Runnable {
    override def run(): Unit = log += name
  }

  /** Limits of two calls in flight, beside which nothing holds them up. */
  private val kinds = Map[String, LimitClock => Limit](
    "of calls" -> { (clock: LimitClock) => TestLimit.ofCalls(2, clock) },
    "that adapts" -> { (clock: LimitClock) => TestLimit.adaptive(2, clock) },
    "with a breaker" -> { (clock: LimitClock) =>
      new LocalLimit(LimitTerms(2), Overload.Default, clock, new Breaker(3, 1000L))
    },
    "with a rate" -> { (clock: LimitClock) =>
      val terms = LimitTerms(2, most = 1e9, intervalNanos = 1000L)
      new LocalLimit(terms, Overload.Default, clock, null, 1e6)
    },
    "that is lent" -> { (clock: LimitClock) =>
      val lent = TestLending.limit(LimitTerms(2), clock)((_, answer) => answer(LimitGrant(2, 0L, 1L << 40)))
      lent.tryAcquire(() => ())
      lent.release()
      lent
    }
  )

  test("an error is judged outside of the lock, as the user's code may wait for another thread") {
    val other = TestLimit.ofCalls(1)
    var isAnswered = false
    val judging: Overload = _ => {
      val caller = new Thread(() => isAnswered = other.tryAcquire(() => ()))
      caller.start()
      caller.join(10000L)
      0L
    }
    val clock = new SimulatedClock
    val limit = new LocalLimit(LimitTerms(2), judging, clock, new Breaker(3, 1000L))
    assert(limit.tryAcquire(() => ()))
    limit.observe(clock.nanoTime, new RuntimeException("503"))
    limit.release()
    assert(isAnswered)
  }

  for ((kind, make) <- kinds) {
    test(s"a limit $kind gives out its permits, then serves in order, without overtaking") {
      val log = mutable.Buffer.empty[String]
      val limit = make(new SimulatedClock)
      assert(limit.tryAcquire(new Waiter("a", log)) && limit.tryAcquire(new Waiter("b", log)))
      assert(!limit.tryAcquire(new Waiter("c", log)) && !limit.tryAcquire(new Waiter("d", log)))
      limit.release()
      assert(log == Seq("c") && limit.inUse == 2 && limit.limitNow == 2)
      assert(!limit.tryAcquire(new Waiter("e", log)))
      (1 to 2).foreach(_ => limit.release())
      assert(log == Seq("c", "d", "e"))
      (1 to 2).foreach(_ => limit.release())
      assert(limit.inUse == 0)
      assert(intercept[IllegalStateException](limit.release()).getMessage.contains("nobody held"))
    }

    test(s"a waiter of a limit $kind that is cancelled leaves the queue; one that was served can't be") {
      val log = mutable.Buffer.empty[String]
      val limit = make(new SimulatedClock)
      (1 to 2).foreach(_ => limit.tryAcquire(() => ()))
      val (first, second) = (new Waiter("first", log), new Waiter("second", log))
      limit.tryAcquire(first)
      limit.tryAcquire(second)
      assert(limit.cancel(first) && !limit.cancel(first))
      limit.release()
      assert(log == Seq("second") && !limit.cancel(second))
    }

    test(s"a pause of a limit $kind is for all who share it, and a shorter one does not end it") {
      val clock = new SimulatedClock
      val limit = make(clock)
      val at = mutable.Buffer.empty[Long]
      assert(limit.tryAcquire(() => ()) && limit.mayBegin)
      limit.pause(5000000000L)
      limit.pause(10L)
      assert(!limit.tryAcquire(() => at += clock.nowMs) && !limit.mayBegin)
      clock.run(4999)
      assert(at.isEmpty)
      clock.run(5300)
      assert(at.size == 1 && at.head >= 5000 && limit.mayBegin)
    }
  }

  test("a rate spaces calls evenly and serves waiters in order") {
    val clock = new ManualLimitClock
    val log = mutable.Buffer.empty[String]
    val limiter = TestLimit.ofRate(4, 100, 1, clock)
    assert(limiter.tryAcquire(() => ()))
    Seq("a", "b", "c").foreach(name => assert(!limiter.tryAcquire(new Waiter(name, log))))
    clock.advance(25)
    assert(log.isEmpty)
    clock.advance(1)
    assert(log == Seq("a"))
    clock.advance(52)
    assert(log == Seq("a", "b", "c") && clock.pending == 0)
    assert(!limiter.tryAcquire(new Waiter("d", log)))
    clock.advance(100)
    assert(log.last == "d" && limiter.tryAcquire(() => ()))
  }

  test("in no stretch of its interval does a rate start more than its permits, whatever the burst") {
    for (burst <- Seq(1, 3); permits <- Seq(1, 3, 7)) {
      val clock = new ManualLimitClock
      val limiter = TestLimit.ofRate(permits.toDouble, 100, burst.toDouble, clock)
      val starts = mutable.Buffer.empty[Long]
      def start(): Unit = starts += clock.nanoTime
      var asked = 0
      while (asked < 200) {
        if (limiter.tryAcquire(() => start())) start()
        asked += 1
        clock.advance(ThreadLocalRandom.current().nextLong(12))
      }
      clock.advance(30000)
      assert(starts.size == 200)
      for (i <- starts.indices) {
        val within = starts.drop(i).takeWhile(_ - starts(i) < 100).size
        assert(within <= permits, s"$permits permits, burst $burst")
      }
    }
  }

  test("a burst may start at once after a pause and is then used up") {
    val clock = new ManualLimitClock
    val limiter = TestLimit.ofRate(10, 100, 3, clock)
    clock.advance(1000)
    assert(Seq.fill(4)(limiter.tryAcquire(() => ())) == Seq(true, true, true, false))
  }

  test("a rate that nobody waits for any more wakes once at most") {
    val clock = new ManualLimitClock
    val limiter = TestLimit.ofRate(1, 100, 1, clock)
    limiter.tryAcquire(() => ())
    val waiter: Runnable = () => fail("was cancelled")
    limiter.tryAcquire(waiter)
    assert(limiter.cancel(waiter))
    clock.advance(300)
    assert(clock.pending == 0)
  }

  test("by the machine's clock a rate serves those who wait") {
    val served = new AtomicInteger
    val limiter = TestLimit.ofRate(1000, 1000000000L, 10, LimitClock.System)
    (1 to 30).foreach(_ => if (limiter.tryAcquire(() => served.incrementAndGet())) served.incrementAndGet())
    MailboxTesting.eventually("all were served")(served.get == 30)
  }

  test("both limits hold at once, in whichever of the two a waiter stands") {
    val clock = new ManualLimitClock
    val log = mutable.Buffer.empty[String]
    val concurrency = TestLimit.ofCalls(1)
    val limiter = Limiter.all(concurrency, TestLimit.ofRate(1, 100, 1, clock))
    assert(limiter.tryAcquire(() => ()))
    assert(!limiter.tryAcquire(new Waiter("a", log)))
    clock.advance(200)
    assert(log.isEmpty, "the rate would admit it, the concurrency does not")
    limiter.release()
    assert(log == Seq("a"))
    assert(!limiter.tryAcquire(new Waiter("b", log)))
    limiter.release()
    assert(log == Seq("a") && concurrency.inUse == 0, "it waits for the rate, and holds nothing meanwhile")
    clock.advance(101)
    assert(log == Seq("a", "b"))
    limiter.release()
    assert(concurrency.inUse == 0)
  }

  test("a waiter of both limits can be cancelled at each of them, and gives back what it holds") {
    val clock = new ManualLimitClock
    val concurrency = TestLimit.ofCalls(1)
    val limiter = Limiter.all(concurrency, TestLimit.ofRate(1, 100, 1, clock))
    assert(limiter.tryAcquire(() => ()))
    val atFirst: Runnable = () => fail("was cancelled")
    assert(!limiter.tryAcquire(atFirst) && limiter.cancel(atFirst) && !limiter.cancel(atFirst))
    limiter.release()
    val atSecond: Runnable = () => fail("was cancelled")
    assert(!limiter.tryAcquire(atSecond) && concurrency.inUse == 0)
    assert(limiter.cancel(atSecond) && concurrency.inUse == 0)
    clock.advance(300)
  }

  test("an unlimited limiter is left out of a composition") {
    val limiter = TestLimit.ofCalls(1)
    assert(
      (Limiter.all(Limiter.Unlimited, limiter) eq limiter) && (Limiter
        .all(limiter, Limiter.Unlimited) eq limiter)
    )
    assert(Limiter.Unlimited.tryAcquire(() => ()) && !Limiter.Unlimited.cancel(() => ()))
  }

  test("limits refuse figures that are not positive, with the value") {
    def refused(made: => LocalLimit) = intercept[IllegalArgumentException](made).getMessage
    assert(refused(TestLimit.ofCalls(-1)).contains("-1"))
    assert(refused(TestLimit.ofRate(-1, 5, 1, LimitClock.System)).contains("-1"))
    assert(refused(TestLimit.ofRate(1, 0, 1, LimitClock.System)).contains(",0)"))
    assert(refused(TestLimit.ofRate(1, 5, 0, LimitClock.System)).contains("not 0"))
  }

  test("under load no permit is lost or made up, by operators that share limits in any order") {
    val max = 3
    val Seq(one, two, three) = Seq.fill(3)(TestLimit.ofCalls(max))
    val rate = TestLimit.ofRate(1000000, 100000000L, 1000, LimitClock.System)
    val limiters =
      Seq(Seq(one, rate), Seq(one, two), Seq(two, three), Seq(three, one)).map(Limiter.all(_: _*))
    val out = Seq(one, two, three).map(_ -> new AtomicInteger).toMap[Limiter, AtomicInteger]
    val calls = new AtomicInteger
    val workers = limiters.map { limiter =>
      val own = limiter.parts.toSeq.flatMap(part => out.get(part.limit))
      def call(): Unit = {
        own.foreach(limit => assert(limit.incrementAndGet() <= max))
        calls.incrementAndGet()
        own.foreach(_.decrementAndGet())
        limiter.release()
      }
      MailboxTesting.start {
        val random = ThreadLocalRandom.current()
        (1 to 5000).foreach { _ =>
          val state = new AtomicReference("in line")
          val waiter: Runnable =
            () => if (state.compareAndSet("in line", "served")) call() else limiter.release()
          if (limiter.tryAcquire(waiter)) {
            state.set("served")
            call()
          } else if (random.nextInt(3) == 0 && limiter.cancel(waiter)) state.set("cancelled")
          else MailboxTesting.eventually("served")(state.get == "served")
        }
      }
    }
    workers.foreach(MailboxTesting.await(_))
    assert(Seq(one, two, three).forall(_.inUse == 0) && calls.get > 0)
  }

  test("a pause that is over while all permits are out leaves no timer behind") {
    val clock = new ManualLimitClock
    val limiter = TestLimit.ofCalls(1, clock)
    assert(limiter.tryAcquire(() => ()))
    limiter.pause(10)
    val log = mutable.Buffer.empty[String]
    assert(!limiter.tryAcquire(new Waiter("a", log)))
    clock.advance(20)
    assert(clock.pending == 0 && log.isEmpty)
    limiter.release()
    assert(log == Seq("a"))
  }
}
