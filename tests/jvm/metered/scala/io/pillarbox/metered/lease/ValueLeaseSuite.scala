package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.metered.limit._
import io.pillarbox.tags.Nightly
import org.scalatest.Assertions
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tags.Slow

/** Calls for a limit that each value of a key has by itself. */
private final class ValueCalls(terms: LimitTerms, seed: Int, lost: Int = 0, longestDelayMs: Int = 5)
    extends Assertions {
  val network = new Network(seed, lost, longestDelayMs)
  import network.{clock, random}
  val oracles = mutable.Map.empty[Int, UsageOracle]
  private val underWay = mutable.Map.empty[Int, Int].withDefaultValue(0)
  var calls = 0
  var longestMs = 1000

  /** A process, which keeps the limits of values as an executor does. */
  final class Caller {
    val process = network.add()
    private val limits = mutable.Map.empty[Int, LentLimit]

    /** Calls for a value, again and again while `goesOn`. */
    def call(value: Int)(goesOn: => Boolean): Unit = if (process.isAlive) {
      def made = process.limit(terms, Some(LimitValue(0, value.toLong)))
      val limit = limits.getOrElseUpdate(value, made)
      val waiter: Runnable = () => begin(value, limit)(goesOn)
      if (limit.tryAcquire(waiter)) waiter.run()
    }

    private def begin(value: Int, limit: LentLimit)(goesOn: => Boolean): Unit = if (process.isAlive) {
      calls += 1
      oracles.getOrElseUpdate(value, new UsageOracle(clock)).add(clock.nanoTime, 1, 1, clock.nanoTime)
      underWay(value) += 1
      if (terms.calls > 0) assert(underWay(value) <= terms.calls, s"value $value")
      clock.in(10L + random.nextInt(longestMs)) {
        underWay(value) -= 1
        if (process.isAlive) {
          limit.release()
          if (goesOn) call(value)(goesOn)
        }
      }
    }

    /** Forgets the limits of values without calls. */
    def forget(): Unit = limits.filterInPlace((_, limit) => !limit.isReturned): Unit

    def known: Int = limits.size
  }
}

class ValueLeaseSuite extends AnyFunSuite {
  private val Minute = TimeUnit.MINUTES.toNanos(1)

  for (seed <- 1 to 20)
    test(
      s"random values, processes, messages and deaths: no value has more than its limit, seed $seed",
      Seq(Nightly).filter(_ => seed > 3): _*
    ) {
      val random = new Random(seed)
      val terms = LimitTerms(
        if (random.nextBoolean()) 0 else 1 + random.nextInt(5),
        most = 5.0 + random.nextInt(50),
        intervalNanos = Seq(1000L, 10000L, 60000L)(random.nextInt(3)) * 1000000L
      )
      val of = new ValueCalls(terms, seed, random.nextInt(20), 1 + random.nextInt(200))
      val processes = mutable.Buffer.fill(1 + random.nextInt(5))(new of.Caller)
      (1 to 200).foreach { n =>
        of.network.clock.in(random.nextInt(180000).toLong) {
          val left = random.nextInt(20)
          val count = Iterator.from(0)
          processes(random.nextInt(processes.size)).call(random.nextInt(10))(count.next() < left)
        }
        if (n % 10 == 0) of.network.clock.in(random.nextInt(180000).toLong)(processes.foreach(_.forget()))
        if (n % 60 == 0) of.network.clock.in(random.nextInt(180000).toLong) {
          val i = random.nextInt(processes.size)
          if (terms.calls == 0) {
            processes(i).process.die()
            processes(i) = new of.Caller
          }
        }
      }
      of.network.clock.run(240000)
      of.oracles.values.foreach(_.check(terms.most, terms.intervalNanos))
      assert(of.calls > 50)
    }

  test("values one after another leave nothing with the process, and with the lender while they count") {
    val terms = LimitTerms(2, most = 60, intervalNanos = Minute)
    val of = new ValueCalls(terms, 1)
    val process = new of.Caller
    of.longestMs = 10
    (0 until 20000).foreach(n => of.network.clock.in(n * 10L)(process.call(n)(false)))
    var most = 0
    (1 to 200).foreach { second =>
      of.network.clock.run(second * 1000L)
      process.forget()
      most = math.max(most, process.known)
      assert(of.network.lender.size < 100 * 80, second)
    }
    assert(most < 300 && of.calls > 19000)
    of.network.clock.run(400000)
    process.forget()
    assert(process.known == 0 && of.network.lender.size == 0)
  }

  test("a process that has given its part of a rate back counts no more among those that report") {
    val terms = LimitTerms(0, most = 60, intervalNanos = Minute)
    val limit = new LimitAllocator(terms)
    def report(number: Long, applied: Long, isWaiting: Boolean): LimitGrant =
      limit.report(
        "p",
        LimitReport(None, terms, number, applied, 0, 0, isWaiting, 0, -1L, 0L),
        number * 1000000L
      )
    assert(report(1, 0, isWaiting = true).amount.amount > 0 && limit.processes == 1)
    assert(report(2, 1, isWaiting = false) != null && limit.processes == 1)
    assert(report(3, 3, isWaiting = false) != null && limit.processes == 0)
    assert(!limit.isLikeNew(4000000L), "what it was lent counts")
    assert(report(4, 3, isWaiting = true) != null && limit.processes == 1)
  }

  test("a limit of calls under way is forgotten at once") {
    val of = new ValueCalls(LimitTerms(2), 1)
    val process = new of.Caller
    of.longestMs = 10
    (0 until 5000).foreach(n => of.network.clock.in(n * 10L)(process.call(n)(false)))
    of.network.clock.run(60000)
    process.forget()
    assert(of.calls == 5000 && process.known == 0)
    assert(of.network.lender.size == 0)
  }
}

@Slow
class ManyValuesSuite extends AnyFunSuite {
  private val Minute = TimeUnit.MINUTES.toNanos(1)

  for {
    terms <- Seq(LimitTerms(0, most = 60, intervalNanos = Minute), LimitTerms(4))
    (values, executors, tags) <- Seq((100, 4, Nil), (1000, 10, Seq(Nightly)))
  }
    test(s"$values values in each of $executors processes: few messages, and all is used, $terms", tags: _*) {
      val of = new ValueCalls(terms, 7)
      val processes = Seq.fill(executors)(new of.Caller)
      of.longestMs = if (terms.hasRate) 500 else 2000
      for { process <- processes; value <- 0 until values }
        (1 to 2).foreach(_ =>
          of.network.clock.in(of.network.random.nextInt(2000).toLong)(process.call(value)(true))
        )
      val (warm, seconds) = (if (terms.hasRate) 70 else 20, 30)
      of.network.clock.run(warm * 1000L)
      of.network.messages = 0
      of.network.reports = 0
      of.calls = 0
      of.network.clock.run((warm + seconds) * 1000L)
      val (messages, reports) = (of.network.messages / seconds, of.network.reports / seconds)
      info(s"$messages messages and $reports reports a second, ${of.calls / seconds} calls a second")
      assert(messages <= 2000 && reports <= 25000)
      if (terms.hasRate) {
        of.oracles.values.foreach(_.check(terms.most, terms.intervalNanos))
        assert(of.calls > 0.9 * values * seconds)
      } else assert(of.calls > 0.8 * 4 * values * seconds / 1.01)
    }

  test("many processes with a value each keep to the messages that the lender hears") {
    val of = new ValueCalls(LimitTerms(0, most = 600, intervalNanos = Minute), 3)
    val processes = Seq.fill(500)(new of.Caller)
    processes.zipWithIndex.foreach { case (process, value) => process.call(value)(true) }
    of.network.clock.run(20000)
    of.network.messages = 0
    of.network.clock.run(30000)
    assert(of.network.messages / 10 <= 2000)
    assert(of.calls > 500)
  }
}
