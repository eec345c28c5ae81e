package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.metered.limit._
import io.pillarbox.tags.Whole
import org.scalatest.funsuite.AnyFunSuite

/** A limit in a unit over many processes, whose messages are lost, late and out of order, and which die. */
class UnitLeaseSuite extends AnyFunSuite {
  private val Minute = TimeUnit.MINUTES.toNanos(1)

  /** @param lost of 100 messages, so many, each way */
  private final class World(terms: LimitTerms, seed: Int, lost: Int, longestDelayMs: Int) {
    val random = new Random(seed)
    val clock = new SimulatedClock
    val ledger = new LeaseLedger(terms)
    val processes = mutable.Buffer.empty[Process]
    val oracle = new UsageOracle(clock)
    var isReachable = true
    var messages = 0
    private var count = 0

    def add(): Process = {
      count += 1
      val made = new Process(s"executor $count")
      processes += made
      made
    }

    private def travel(message: => Unit): Unit =
      if (isReachable && random.nextInt(100) >= lost)
        clock.in(random.nextInt(longestDelayMs + 1).toLong)(message)

    final class Process(name: String) {
      private var isAlive = true
      private val underWay = mutable.LinkedHashMap.empty[Long, Double]
      var started, done = 0
      var estimate: () => Double = () => random.nextInt(60).toDouble
      var used: Double => Double = identity
      var lastsMs: () => Long = () => 10L + random.nextInt(3000)

      val gate = new LentLimit(
        terms,
        Overload.Default,
        clock,
        (report, answer) =>
          if (isAlive)
            travel {
              messages += 1
              val grant = ledger.report(name, report, clock.nanoTime)
              if (grant != null) travel(if (isAlive) answer(grant))
            }
      )
      private val units = Limiter.ofUnits(Seq(gate -> 0))

      private final class Waiter extends CallWaiter {
        @volatile override var permit: Permit = _
        private val amount = Process.this.estimate()
        override def estimate(limit: Int): Double = amount
        override def run(): Unit = call(permit, amount)
      }

      def ask(atOnce: Int): Unit = (1 to atOnce).foreach(_ => next())

      private def next(): Unit = if (isAlive) {
        val waiter = new Waiter
        if (units.tryAcquire(waiter)) waiter.run()
      }

      private def call(permit: Permit, estimate: Double): Unit = if (isAlive) {
        started += 1
        val start = clock.nanoTime
        val amount = used(if (estimate.isNaN) random.nextInt(60).toDouble else estimate)
        underWay(start) = amount
        clock.in(lastsMs()) {
          if (isAlive) {
            oracle.add(start, if (estimate.isNaN) amount else estimate, amount, clock.nanoTime)
            permit.used(_ => amount)
            done += 1
            permit.release()
            next()
          } else oracle.add(start, if (estimate.isNaN) amount else estimate, amount, clock.nanoTime)
        }
      }

      def die(): Unit = isAlive = false
    }
  }

  for (seed <- 1 to 40)
    test(
      s"random processes, messages and deaths: never more than the limit, seed $seed",
      Seq(Whole).filter(_ => seed > 4): _*
    ) {
      val random = new Random(seed)
      val most = 200.0 + random.nextInt(3000)
      val interval = Seq(1000L, 10000L, 60000L)(random.nextInt(3))
      val terms = LimitTerms(
        if (random.nextBoolean()) 0 else 1 + random.nextInt(20),
        most = most,
        intervalNanos = TimeUnit.MILLISECONDS.toNanos(interval)
      )
      val world = new World(terms, seed, random.nextInt(40), 1 + random.nextInt(600))
      val isExact = random.nextBoolean()
      (1 to 60).foreach { _ =>
        random.nextInt(6) match {
          case 0 =>
            val added = world.add()
            if (!isExact) added.used = _ * world.random.nextDouble() * 1.5
            added.ask(1 + random.nextInt(20))
          case 1 if world.processes.nonEmpty =>
            val dying = world.processes(random.nextInt(world.processes.size))
            dying.die()
            world.processes -= dying
          case 2 => world.isReachable = random.nextInt(3) > 0
          case _ => ()
        }
        world.clock.run(world.clock.nowMs + random.nextInt(4000))
      }
      world.oracle.check(most, terms.intervalNanos)
      // Nothing is lost for ever.
      world.isReachable = true
      world.processes.foreach(_.die())
      world.clock.run(world.clock.nowMs + 70000)
      val last = world.add()
      last.ask(5)
      world.clock.run(world.clock.nowMs + 3 * interval + 60000)
      assert(last.done > 5)
      world.oracle.check(most, terms.intervalNanos)
    }

  for (count <- Seq(1, 3, 20); seed <- 1 to 3)
    test(
      s"$count processes with enough to do use 97 parts in 100, with what they return, seed $seed",
      Seq(Whole).filter(_ => seed > 1): _*
    ) {
      val most = 1e6
      val world = new World(LimitTerms(0, most = most, intervalNanos = Minute), seed, 0, 5)
      (1 to count).foreach { _ =>
        val added = world.add()
        added.estimate = () => 100.0 + world.random.nextInt(4000)
        added.used = _ * (0.5 + world.random.nextDouble() / 2)
        added.ask(200)
      }
      world.clock.run(10 * 60000)
      world.oracle.check(most, Minute)
      assert(world.oracle.total >= 0.97 * 10 * most, world.oracle.total)
      val done = world.processes.map(_.done)
      assert(done.max < 1.5 * done.min, done)
    }

  // What is charged for calls under way is room that no other has: with estimates of four times the use, calls that
  // last a sixth of the interval can use 1 / (1 + 4 / 6) of the limit, and short ones all but one estimate.
  for ((count, lastsMs, share) <- Seq((1, 10000L, 0.57), (3, 10000L, 0.57), (1, 10L, 0.82)))
    test(s"estimates of four times the use leave as little as they must: $count processes, $lastsMs ms") {
      val most = 30000.0
      val world = new World(LimitTerms(0, most = most, intervalNanos = Minute), 1, 0, 5)
      (1 to count).foreach { _ =>
        val added = world.add()
        added.estimate = () => 4000.0 + world.random.nextInt(2000)
        added.used = _ / 4
        added.lastsMs = () => lastsMs
        added.ask(200)
      }
      world.clock.run(10 * 60000)
      world.oracle.check(most, Minute)
      assert(world.oracle.total >= share * 10 * most, world.oracle.total)
    }

  test("calls larger than the part of each go in turn, and one of all the limit has its turn") {
    val world = new World(LimitTerms(0, most = 1000, intervalNanos = Minute), 1, 0, 2)
    (1 to 10).foreach { i =>
      val added = world.add()
      added.estimate = () => if (i == 10) 1000 else 90
      added.ask(5)
    }
    world.clock.run(20 * 60000)
    world.oracle.check(1000, Minute)
    val done = world.processes.map(_.started)
    assert(done.last >= 3 && done.init.min > 5 && done.init.max <= 2 * done.init.min, done)
  }

  test("without an estimate one call of all processes goes alone, and then each is charged the mean") {
    val world = new World(LimitTerms(0, most = 3000, intervalNanos = Minute), 1, 0, 2)
    (1 to 4).foreach { _ =>
      val added = world.add()
      added.estimate = () => Double.NaN
      added.ask(10)
    }
    world.clock.run(9)
    assert(world.processes.map(_.started).sum == 1)
    world.clock.run(120000)
    assert(world.processes.map(_.started).min > 5)
    assert(world.oracle.total > 3000)
  }

  test("what the service says reaches the limit of all processes") {
    val world = new World(LimitTerms(0, most = 60000, intervalNanos = Minute), 1, 0, 2)
    val (one, other) = (world.add(), world.add())
    Seq(one, other).foreach { process =>
      process.estimate = () => 10
      process.ask(3)
    }
    world.clock.run(5000)
    one.gate.told(Limiter.Calls, Feedback(0, TimeUnit.SECONDS.toNanos(30)))
    world.clock.run(6000)
    val before = other.started
    assert(before > 10)
    world.clock.run(34000)
    assert(other.started == before)
    world.clock.run(37000)
    assert(other.started > before)
  }

  test("what a process lacked long ago is not charged again when it reports after a long silence") {
    val ledger = new LeaseLedger(LimitTerms(0, most = 100, intervalNanos = Minute))
    def report(number: Long, minute: Long, first: Double) = ledger.report(
      "a",
      LeaseReport(number, number - 1, 0, 0, isWaiting = true, 0, -1L, 0L, AmountUse(first, missing = 1000)),
      minute * Minute
    )
    report(1, 0, 1): Unit
    assert(report(2, 1, 90).amount.amount == 0)
    assert(report(3, 20, 90).amount.amount >= 90)
    // To a ledger that begins anew it is no news either.
    val another = new LeaseLedger(LimitTerms(0, most = 100, intervalNanos = Minute))
    val known = LeaseReport(9, 0, 0, 0, isWaiting = true, 0, -1L, 0L, AmountUse(90, missing = 1000))
    assert(another.report("a", known, 0).amount.amount >= 90)
  }

  test("what calls use is learned from processes that report seldom, as many do") {
    val ledger = new LeaseLedger(LimitTerms(0, most = 100, intervalNanos = TimeUnit.SECONDS.toNanos(1)))
    val fiveSeconds = TimeUnit.SECONDS.toNanos(5)
    def report(number: Long, reports: Long) = {
      val use = AmountUse(Double.NaN, reported = 10.0 * reports, reports = reports)
      val made = LeaseReport(number, number - 1, 0, 0, isWaiting = true, 0, -1L, 0L, use)
      ledger.report("a", made, (number - 1) * fiveSeconds, leastNanos = fiveSeconds)
    }
    assert(report(1, 0).amount.mean.isNaN)
    assert(report(2, 1).amount.mean == 10)
  }
}
