package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.metered.limit._
import io.pillarbox.tags.Nightly
import org.scalatest.funsuite.AnyFunSuite

/** What a service says is left bounds what begins, also where a limit is in full use by itself. */
class FeedbackSuite extends AnyFunSuite {
  private val Second = TimeUnit.SECONDS.toNanos(1)

  /**
   * Calls that keep limits in full use.
   *
   * @param unit of the limits, to be reported
   */
  private final class Callers(clock: SimulatedClock, random: Random, limits: Seq[Limiter], isOfUse: Boolean) {
    private val unit = if (isOfUse) 0 else Limiter.Calls

    /** When they began, with what they use, and where. */
    val begun = mutable.Buffer.empty[(Long, Double, Int)]
    private val permits = mutable.Buffer.empty[(Permit, Int)]

    def ask(place: Int, calls: Int): Unit = (1 to calls).foreach(_ => next(place))

    private def next(place: Int): Unit = {
      val amount = if (isOfUse) random.nextInt(5).toDouble else 1.0
      val limiter = Limiter.ofUnits(Seq(limits(place) -> unit))
      val waiter: CallWaiter = new CallWaiter {
        @volatile override var permit: Permit = _
        override def estimate(limit: Int): Double = amount
        override def run(): Unit = begin(place, if (permit == null) limiter else permit, amount)
      }
      if (limiter.tryAcquire(waiter)) waiter.run()
    }

    private def begin(place: Int, permit: Permit, amount: Double): Unit =
      if (isOfUse && random.nextInt(4) == 0) {
        permit.unused()
        clock.in(1L + random.nextInt(20))(next(place))
      } else {
        val used = if (isOfUse) amount * random.nextDouble() else amount
        begun += ((clock.nowMs, used, place))
        permits += ((permit, place))
        clock.in(1L + random.nextInt(500)) {
          permits -= ((permit, place))
          if (isOfUse) permit.used(_ => used)
          permit.release()
          next(place)
        }
      }

    /** Tells it in some call, if there is one, and returns where. */
    def tell(left: Double, resetMs: Long): Option[Int] = permits.headOption.map { case (permit, place) =>
      permit.told(unit, Feedback(left, TimeUnit.MILLISECONDS.toNanos(resetMs)))
      place
    }

    def amountSince(ms: Long, place: Int => Boolean = _ => true): Double =
      begun.reverseIterator.takeWhile(_._1 >= ms).filter(one => place(one._3)).map(_._2).sum
  }

  test("after 0 left nothing begins until all is back, in a limit that is in full use") {
    val clock = new SimulatedClock
    val callers =
      new Callers(clock, new Random(1), Seq(TestLimit.ofRate(20, Second, 1, clock)), isOfUse = false)
    callers.ask(0, 30)
    clock.run(3000)
    assert(callers.tell(0, 5000).isDefined)
    val before = callers.begun.size
    clock.run(7999)
    assert(callers.begun.size == before)
    clock.run(10000)
    assert(callers.begun.size > before + 30)
  }

  test("where the service does not say when, all is back after the limit's own time") {
    val clock = new SimulatedClock
    val limiter = TestLimit.ofRate(20, Second, 1, clock)
    limiter.told(Limiter.Calls, Feedback(0, Feedback.NoReset))
    var begins = 0
    assert(!limiter.tryAcquire(() => begins += 1) && !limiter.mayBegin)
    clock.run(999)
    assert(begins == 0)
    clock.run(1000)
    assert(limiter.mayBegin && begins == 1)
  }

  for (seed <- 1 to 40) test(s"no more begins than the service said is left, seed $seed") {
    val random = new Random(seed)
    val clock = new SimulatedClock
    val rate = 5.0 + random.nextInt(100)
    val callers =
      new Callers(
        clock,
        random,
        Seq(TestLimit.ofRate(rate, Second, 1, clock)),
        isOfUse = random.nextBoolean()
      )
    callers.ask(0, 50)
    val said = mutable.Buffer.empty[(Long, Long, Double)]
    (1 to 30).foreach { _ =>
      clock.run(clock.nowMs + random.nextInt(1500))
      if (random.nextInt(3) > 0) {
        val left = if (random.nextInt(3) == 0) 0.0 else random.nextInt(60).toDouble
        val ms = random.nextInt(6000).toLong
        if (callers.tell(left, ms).isDefined) said += ((clock.nowMs, clock.nowMs + ms, left))
      }
    }
    clock.run(clock.nowMs + 7000)
    val last = callers.begun.size
    clock.run(clock.nowMs + 3000)
    assert(callers.begun.size > last, "nothing that was said lasts for ever")
    said.foreach { case (from, until, left) =>
      val used = callers.begun.collect { case (at, amount, _) if at > from && at < until => amount }.sum
      assert(used <= left + 1e-6, s"$left left from $from to $until")
    }
  }

  for (seed <- 1 to 10; rate <- Seq(20.0, 600.0))
    test(
      s"over executors, once the driver has heard no more begins than is left: $rate a second, seed $seed",
      Seq(Nightly).filter(_ => seed > 3): _*
    ) {
      val network = new Network(seed, longestDelayMs = 4)
      import network.{clock, random}
      val terms = LimitTerms(0, most = rate, intervalNanos = Second)
      val limits = Seq.fill(3)(network.add().limit(terms))
      val callers = new Callers(clock, random, limits, isOfUse = random.nextBoolean())
      limits.indices.foreach(callers.ask(_, 60))
      clock.run(5000)
      for (left <- Seq(0.0, 40.0)) {
        val told = clock.nowMs
        val place = callers.tell(left, 8000).get
        clock.run(told + 7990)
        assert(callers.amountSince(told + 1, _ == place) <= left + 1e-6, "where it was told, at once")
        // A report is told within 250 ms, and what was lent by then is used within half a second.
        assert(callers.amountSince(told + 1000) <= left + 1e-6, "everywhere")
        clock.run(told + 12000)
        assert(callers.amountSince(told + 9000) > 0.5 * rate)
      }
    }
}
