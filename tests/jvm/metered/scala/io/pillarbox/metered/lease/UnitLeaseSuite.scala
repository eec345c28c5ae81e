package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.util.Random

import io.pillarbox.metered.limit._
import io.pillarbox.tags.Nightly
import org.scalatest.funsuite.AnyFunSuite

/** A limit in a unit over many processes, whose messages are lost, late and out of order, and which die. */
class UnitLeaseSuite extends AnyFunSuite {
  private val Minute = TimeUnit.MINUTES.toNanos(1)

  private def perMinute(most: Double) = LimitTerms(0, most = most, intervalNanos = Minute)

  private def fill(network: Network, most: Double, processes: Int, atOnce: Int)(
      estimate: Int => Double
  ): Seq[network.Caller] = {
    val callers = Seq.fill(processes)(network.caller(perMinute(most), unit = 0))
    callers.zipWithIndex.foreach { case (caller, i) =>
      caller.estimate = () => estimate(i)
      caller.lastsMs = () => 10L + network.random.nextInt(3000)
      caller.ask(Int.MaxValue, atOnce)
    }
    callers
  }

  for (seed <- 1 to 40)
    test(
      s"random processes, messages and deaths: never more than the limit, seed $seed",
      Seq(Nightly).filter(_ => seed > 4): _*
    ) {
      val random = new Random(seed)
      val most = 200.0 + random.nextInt(3000)
      val interval = Seq(1000L, 10000L, 60000L)(random.nextInt(3))
      val calls = if (random.nextBoolean()) 0 else 1 + random.nextInt(20)
      val terms = LimitTerms(calls, most = most, intervalNanos = TimeUnit.MILLISECONDS.toNanos(interval))
      val network = new Network(seed, random.nextInt(40), 1 + random.nextInt(600))
      val isExact = random.nextBoolean()
      def add() = {
        val added = network.caller(terms, unit = 0)
        added.lastsMs = () => 10L + network.random.nextInt(3000)
        added
      }
      (1 to 60).foreach { _ =>
        random.nextInt(6) match {
          case 0 =>
            val added = add()
            if (!isExact) added.used = _ * network.random.nextDouble() * 1.5
            added.ask(Int.MaxValue, 1 + random.nextInt(20))
          case 1 => network.anyLiving().foreach(_.process.die())
          case 2 => network.isReachable = random.nextInt(3) > 0
          case _ => ()
        }
        network.run(random.nextInt(4000).toLong)
      }
      network.oracle.check(most, terms.intervalNanos)
      // Nothing is lost for ever.
      network.isReachable = true
      network.living.foreach(_.process.die())
      network.run(70000)
      val last = add()
      last.ask(Int.MaxValue, 5)
      network.run(3 * interval + 60000)
      assert(last.done > 5)
      network.oracle.check(most, terms.intervalNanos)
    }

  for (count <- Seq(1, 3, 20); seed <- 1 to 3)
    test(
      s"$count processes with enough to do use 97 parts in 100, with what they return, seed $seed",
      Seq(Nightly).filter(_ => seed > 1): _*
    ) {
      val most = 1e6
      val network = new Network(seed, longestDelayMs = 5)
      val callers = fill(network, most, count, atOnce = 200)(_ => 100.0 + network.random.nextInt(4000))
      callers.foreach(_.used = _ * (0.5 + network.random.nextDouble() / 2))
      network.run(10 * 60000)
      network.oracle.check(most, Minute)
      assert(network.oracle.total >= 0.97 * 10 * most, network.oracle.total)
      val done = callers.map(_.done)
      assert(done.max < 1.5 * done.min, done)
    }

  // What is charged for calls under way is room that no other has: with estimates of four times the use, calls that
  // last a sixth of the interval can use 1 / (1 + 4 / 6) of the limit, and short ones all but one estimate.
  for ((count, lastsMs, share) <- Seq((1, 10000L, 0.57), (3, 10000L, 0.57), (1, 10L, 0.82)))
    test(s"estimates of four times the use leave as little as they must: $count processes, $lastsMs ms") {
      val most = 30000.0
      val network = new Network(1, longestDelayMs = 5)
      val callers = fill(network, most, count, atOnce = 200)(_ => 4000.0 + network.random.nextInt(2000))
      callers.foreach { caller =>
        caller.used = _ / 4
        caller.lastsMs = () => lastsMs
      }
      network.run(10 * 60000)
      network.oracle.check(most, Minute)
      assert(network.oracle.total >= share * 10 * most, network.oracle.total)
    }

  test("calls larger than the part of each go in turn, and one of all the limit has its turn") {
    val network = new Network(1)
    val callers = fill(network, 1000, 10, atOnce = 5)(i => if (i == 9) 1000 else 90)
    network.run(20 * 60000)
    network.oracle.check(1000, Minute)
    val done = callers.map(_.started)
    assert(done.last >= 3 && done.init.min > 5 && done.init.max <= 2 * done.init.min, done)
  }

  test("without an estimate one call of all processes goes alone, and then each is charged the mean") {
    val network = new Network(1)
    val callers = fill(network, 3000, 4, atOnce = 10)(_ => Double.NaN)
    network.run(9)
    assert(callers.map(_.started).sum == 1)
    network.run(120000)
    assert(callers.map(_.started).min > 5)
    assert(network.oracle.total > 3000)
  }

  test("what the service says reaches the limit of all processes") {
    val network = new Network(1)
    val Seq(one, other) = fill(network, 60000, 2, atOnce = 3)(_ => 10)
    network.run(5000)
    one.limit.told(Limiter.Calls, Feedback(0, TimeUnit.SECONDS.toNanos(30)))
    network.run(1000)
    val before = other.started
    assert(before > 10)
    network.run(28000)
    assert(other.started == before)
    network.run(3000)
    assert(other.started > before)
  }

  test("what was lent and comes back unused when the service has said what is left is lent again") {
    val network = new Network(1)
    val lent = Seq.fill(2)(network.caller(perMinute(60000), unit = 0))
    lent.foreach { caller =>
      caller.estimate = () => 100
      caller.lastsMs = () => 1L
    }
    // One has been lent more than it uses when the other hears that 1,000 are left.
    lent.head.ask(1, 1)
    lent.last.ask(1, 1)
    network.run(2)
    lent.last.limit.told(Limiter.Calls, Feedback(1000, Minute / 2))
    network.run(3000)
    val before = network.oracle.total
    lent.foreach(_.ask(Int.MaxValue, 5))
    network.run(20000)
    assert(network.oracle.total - before >= 800 && network.oracle.total - before <= 1000)
  }

  test("what a process lacked long ago is not charged again when it reports after a long silence") {
    val limit = new LimitAllocator(perMinute(100))
    def report(number: Long, minute: Long, first: Double) = limit.report(
      "a",
      LimitReport(
        None,
        perMinute(100),
        number,
        number - 1,
        0,
        0,
        isWaiting = true,
        0,
        -1L,
        0L,
        AmountUse(first, missing = 1000)
      ),
      minute * Minute
    )
    report(1, 0, 1): Unit
    assert(report(2, 1, 90).amount.amount == 0)
    assert(report(3, 20, 90).amount.amount >= 90)
    // To an allocator that begins anew it is no news either.
    val another = new LimitAllocator(perMinute(100))
    val known = LimitReport(
      None,
      perMinute(100),
      9,
      0,
      0,
      0,
      isWaiting = true,
      0,
      -1L,
      0L,
      AmountUse(90, missing = 1000)
    )
    assert(another.report("a", known, 0).amount.amount >= 90)
  }

  test("what calls use is learned from processes that report seldom, as many do") {
    val terms = LimitTerms(0, most = 100, intervalNanos = TimeUnit.SECONDS.toNanos(1))
    val limit = new LimitAllocator(terms)
    val fiveSeconds = TimeUnit.SECONDS.toNanos(5)
    def report(number: Long, reports: Long) = {
      val use = AmountUse(Double.NaN, reported = 10.0 * reports, reports = reports)
      val made = LimitReport(None, terms, number, number - 1, 0, 0, isWaiting = true, 0, -1L, 0L, use)
      limit.report("a", made, (number - 1) * fiveSeconds, leastNanos = fiveSeconds)
    }
    assert(report(1, 0).amount.mean.isNaN)
    assert(report(2, 1).amount.mean == 10)
  }
}
