package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.metered.limit._
import io.pillarbox.tags.Whole
import org.scalatest.Assertions
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.tags.Slow

/**
 * A limit that each value of a key has by itself, over many processes in simulated time.
 *
 * @param lost of 100 messages, so many, each way
 */
private final class ValueWorld(terms: LimitTerms, seed: Int, lost: Int = 0, longestDelayMs: Int = 5)
    extends Assertions {
  val random = new Random(seed)
  val clock = new SimulatedClock
  val ledgers = new ValueLedgers(terms)
  val oracles = mutable.Map.empty[Int, UsageOracle]
  val underWay = mutable.Map.empty[Int, Int].withDefaultValue(0)
  var messages, reports, calls = 0
  var longestMs = 1000

  private def oracle(value: Int): UsageOracle = oracles.getOrElseUpdate(value, new UsageOracle(clock))

  private def travel(message: => Unit): Unit =
    if (random.nextInt(100) >= lost) clock.in(random.nextInt(longestDelayMs + 1).toLong)(message)

  final class Process(name: String) {
    var isAlive = true
    private val gates = mutable.Map.empty[Int, LentLimit]
    private val way = new ValueReports(
      terms,
      Overload.Default,
      clock,
      (sent, answer) =>
        if (isAlive)
          travel {
            messages += 1
            reports += sent.size
            val grants = ledgers.report(name, sent, clock.nanoTime)
            travel(if (isAlive) answer(grants))
          }
    )

    /** Calls for a value, again and again while `goesOn`. */
    def call(value: Int)(goesOn: => Boolean): Unit = if (isAlive) {
      val gate = gates.getOrElseUpdate(value, way.part(LimitValue(0, value.toLong)))
      val waiter: Runnable = () => begin(value, gate)(goesOn)
      if (gate.tryAcquire(waiter)) waiter.run()
    }

    private def begin(value: Int, gate: LentLimit)(goesOn: => Boolean): Unit = if (isAlive) {
      calls += 1
      oracle(value).add(clock.nanoTime, 1, 1, clock.nanoTime)
      underWay(value) += 1
      if (terms.calls > 0) assert(underWay(value) <= terms.calls, s"value $value")
      clock.in(10L + random.nextInt(longestMs)) {
        underWay(value) -= 1
        if (isAlive) {
          gate.release()
          if (goesOn) call(value)(goesOn)
        }
      }
    }

    /** Forgets the gates of values without calls, as an executor does. */
    def forget(): Unit = gates.filterInPlace((_, gate) => !gate.isReturned): Unit

    def known: Int = gates.size
  }
}

class ValueLeaseSuite extends AnyFunSuite {
  private val Minute = TimeUnit.MINUTES.toNanos(1)

  for (seed <- 1 to 20)
    test(
      s"random values, processes, messages and deaths: no value has more than its limit, seed $seed",
      Seq(Whole).filter(_ => seed > 3): _*
    ) {
      val random = new Random(seed)
      val terms = LimitTerms(
        if (random.nextBoolean()) 0 else 1 + random.nextInt(5),
        most = 5.0 + random.nextInt(50),
        intervalNanos = Seq(1000L, 10000L, 60000L)(random.nextInt(3)) * 1000000L
      )
      val world = new ValueWorld(terms, seed, random.nextInt(20), 1 + random.nextInt(200))
      val processes = mutable.Buffer.fill(1 + random.nextInt(5))(new world.Process(s"p${random.nextInt()}"))
      (1 to 200).foreach { n =>
        world.clock.in(random.nextInt(180000).toLong) {
          val left = random.nextInt(20)
          val count = Iterator.from(0)
          processes(random.nextInt(processes.size)).call(random.nextInt(10))(count.next() < left)
        }
        if (n % 10 == 0) world.clock.in(random.nextInt(180000).toLong)(processes.foreach(_.forget()))
        if (n % 60 == 0) world.clock.in(random.nextInt(180000).toLong) {
          val i = random.nextInt(processes.size)
          if (terms.calls == 0) {
            processes(i).isAlive = false
            processes(i) = new world.Process(s"p${random.nextInt()}")
          }
        }
      }
      world.clock.run(240000)
      world.oracles.values.foreach(_.check(terms.most, terms.intervalNanos))
      assert(world.calls > 50)
    }

  test("values one after another leave nothing with the process, and with the lender while they count") {
    val terms = LimitTerms(2, most = 60, intervalNanos = Minute)
    val world = new ValueWorld(terms, 1)
    val process = new world.Process("p")
    world.longestMs = 10
    (0 until 20000).foreach(n => world.clock.in(n * 10L)(process.call(n)(false)))
    var most = 0
    (1 to 200).foreach { second =>
      world.clock.run(second * 1000L)
      process.forget()
      most = math.max(most, process.known)
      assert(world.ledgers.size < 100 * 80, second)
    }
    assert(most < 300 && world.calls > 19000)
    world.clock.run(400000)
    process.forget()
    assert(process.known == 0 && world.ledgers.isForgotten(world.clock.nanoTime))
  }

  test("a process that has given its part of a rate back counts no more among those that report") {
    val ledger = new LeaseLedger(LimitTerms(0, most = 60, intervalNanos = Minute))
    def report(number: Long, applied: Long, isWaiting: Boolean): LeaseGrant =
      ledger.report("p", LeaseReport(number, applied, 0, 0, isWaiting, 0, -1L, 0L), number * 1000000L)
    assert(report(1, 0, isWaiting = true).amount.amount > 0 && ledger.processes == 1)
    assert(report(2, 1, isWaiting = false) != null && ledger.processes == 1)
    assert(report(3, 3, isWaiting = false) != null && ledger.processes == 0)
    assert(!ledger.isLikeNew(4000000L), "what it was lent counts")
    assert(report(4, 3, isWaiting = true) != null && ledger.processes == 1)
  }

  test("a limit of calls under way is forgotten at once") {
    val world = new ValueWorld(LimitTerms(2), 1)
    val process = new world.Process("p")
    world.longestMs = 10
    (0 until 5000).foreach(n => world.clock.in(n * 10L)(process.call(n)(false)))
    world.clock.run(60000)
    process.forget()
    assert(world.calls == 5000 && process.known == 0)
    assert(world.ledgers.isForgotten(world.clock.nanoTime))
  }
}

@Slow
class ManyValuesSuite extends AnyFunSuite {
  private val Minute = TimeUnit.MINUTES.toNanos(1)

  for {
    terms <- Seq(LimitTerms(0, most = 60, intervalNanos = Minute), LimitTerms(4))
    (values, executors, tags) <- Seq((100, 4, Nil), (1000, 10, Seq(Whole)))
  }
    test(s"$values values in each of $executors processes: few messages, and all is used, $terms", tags: _*) {
      val world = new ValueWorld(terms, 7)
      val processes = (1 to executors).map(n => new world.Process(s"executor $n"))
      world.longestMs = if (terms.hasRate) 500 else 2000
      for { process <- processes; value <- 0 until values }
        (1 to 2).foreach(_ => world.clock.in(world.random.nextInt(2000).toLong)(process.call(value)(true)))
      val (warm, seconds) = (if (terms.hasRate) 70 else 20, 30)
      world.clock.run(warm * 1000L)
      world.messages = 0
      world.reports = 0
      world.calls = 0
      world.clock.run((warm + seconds) * 1000L)
      val (messages, reports) = (world.messages / seconds, world.reports / seconds)
      info(s"$messages messages and $reports reports a second, ${world.calls / seconds} calls a second")
      assert(messages <= 2000 && reports <= 25000)
      if (terms.hasRate) {
        world.oracles.values.foreach(_.check(terms.most, terms.intervalNanos))
        assert(world.calls > 0.9 * values * seconds)
      } else assert(world.calls > 0.8 * 4 * values * seconds / 1.01)
    }

  test("many processes with a value each keep to the messages that the lender hears") {
    val world = new ValueWorld(LimitTerms(0, most = 600, intervalNanos = Minute), 3)
    val processes = (1 to 500).map(n => new world.Process(s"executor $n"))
    processes.zipWithIndex.foreach { case (process, value) => process.call(value)(true) }
    world.clock.run(20000)
    world.messages = 0
    world.clock.run(30000)
    assert(world.messages / 10 <= 2000)
    assert(world.calls > 500)
  }
}
