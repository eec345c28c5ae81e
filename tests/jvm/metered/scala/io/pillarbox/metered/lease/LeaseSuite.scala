package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.AsyncTimeoutException
import io.pillarbox.metered.limit._
import org.scalatest.funsuite.AnyFunSuite

/** One limit over many processes, whose messages are lost, late and out of order, and which die. */
class LeaseSuite extends AnyFunSuite {
  private val Second = TimeUnit.SECONDS.toNanos(1)

  /** @param lost of 100 messages, so many, each way */
  private final class World(terms: LimitTerms, seed: Int, lost: Int, longestDelayMs: Int) {
    val random = new Random(seed)
    val clock = new SimulatedClock
    var ledger = new LeaseLedger(terms)
    val processes = mutable.Buffer.empty[Process]
    var isReachable = true

    /** When calls began. */
    val starts = mutable.Buffer.empty[Long]
    var most = 0
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
      var isAlive = true
      var callMs: () => Long = () => 5L + random.nextInt(50)
      var isBorne: () => Boolean = () => true
      var done = 0
      var underWay = 0
      private var wanted = 0

      val gate = new LentLimit(
        terms,
        Overload.Default,
        clock,
        (report, answer) =>
          if (isAlive)
            travel {
              val grant = ledger.report(name, report, clock.nanoTime)
              if (grant != null) travel(if (isAlive) answer(grant))
            }
      )

      /** Makes so many calls, `atOnce` at a time. */
      def ask(calls: Int, atOnce: Int): Unit = {
        wanted = calls
        (1 to atOnce).foreach(_ => next())
      }

      private def next(): Unit = if (isAlive && wanted > 0) {
        wanted -= 1
        val waiter: Runnable = () => call()
        if (gate.tryAcquire(waiter)) call()
      }

      private def call(): Unit = if (isAlive) {
        underWay += 1
        starts += clock.nowMs
        most = math.max(most, processes.iterator.map(_.underWay).sum)
        val started = clock.nanoTime
        val borne = isBorne()
        clock.in(callMs()) {
          underWay -= 1
          done += 1
          if (isAlive) {
            gate.observe(started, if (borne) null else AsyncTimeoutException.attempt(1, 1))
            gate.release()
            next()
          }
        }
      }

      def die(): Unit = isAlive = false
    }
  }

  test("a process that is alone gets the whole limit at once, and gives it back when it needs it no more") {
    val world = new World(LimitTerms(8), 1, 0, 1)
    val process = world.add()
    process.ask(100, 20)
    world.clock.run(50)
    assert(world.most == 8)
    world.clock.run(2000)
    assert(process.done == 100 && process.gate.limitNow == 0 && world.ledger.isIdle(world.clock.nanoTime))
  }

  test("permits that are idle while others wait go to them within a second") {
    val world = new World(LimitTerms(10), 2, 0, 2)
    val (first, second) = (world.add(), world.add())
    first.callMs = () => 30000L
    second.callMs = () => 30000L
    first.ask(10, 10)
    world.clock.run(100)
    assert(first.underWay == 10)
    // Nine calls of the first end, and it asks no more.
    world.clock.run(30000 - 500)
    second.ask(20, 20)
    world.clock.run(30000 + 1000)
    assert(second.underWay == 10)
  }

  test("those that wait share what there is, and of too little each gets its turn") {
    val world = new World(LimitTerms(12), 3, 0, 2)
    val processes = Seq.fill(3)(world.add())
    processes.foreach(_.ask(100000, 20))
    world.clock.run(20000)
    val least = processes.map(_.done).min
    assert(processes.map(_.done).max < 1.2 * least)
    val narrow = new World(LimitTerms(2), 4, 0, 2)
    val many = Seq.fill(5)(narrow.add())
    many.foreach(_.ask(100000, 20))
    narrow.clock.run(60000)
    assert(many.forall(_.done > 200), many.map(_.done))
    assert(narrow.most == 2)
  }

  test("a process that died leaves its permits after its lease, not before") {
    val world = new World(LimitTerms(4), 5, 0, 1)
    val (first, second) = (world.add(), world.add())
    first.callMs = () => 60000L
    first.ask(4, 4)
    world.clock.run(100)
    first.die()
    first.underWay = 0
    second.ask(1000000, 10)
    world.clock.run(9500)
    assert(second.done == 0)
    world.clock.run(11500)
    assert(second.done > 50 && world.most == 4)
  }

  test("while the lender can't be reached a process uses what it has until its lease ends, and then waits") {
    val world = new World(LimitTerms(4), 6, 0, 1)
    val process = world.add()
    process.ask(1000000, 10)
    world.clock.run(1000)
    world.isReachable = false
    world.clock.run(9000)
    val before = process.done
    assert(before > 500)
    world.clock.run(11100)
    val ended = process.done
    world.clock.run(20000)
    assert(process.done == ended && process.underWay == 0)
    world.isReachable = true
    world.clock.run(21000)
    assert(process.done > ended && world.most == 4)
  }

  test("a lender that starts anew waits for nobody, and hears what each has") {
    val world = new World(LimitTerms(6), 7, 0, 1)
    val processes = Seq.fill(2)(world.add())
    processes.foreach(_.ask(1000000, 10))
    world.clock.run(3000)
    val before = processes.map(_.done)
    world.ledger = new LeaseLedger(LimitTerms(6))
    world.clock.run(6000)
    assert(processes.map(_.done).zip(before).forall { case (now, then) => now > then + 50 })
  }

  for (seed <- 1 to 40)
    test(s"random processes, messages and deaths: never more than the limit, seed $seed") {
      val random = new Random(seed)
      val limit = 1 + random.nextInt(20)
      val world = new World(LimitTerms(limit), seed, random.nextInt(40), 1 + random.nextInt(600))
      (1 to 60).foreach { _ =>
        random.nextInt(6) match {
          case 0 => world.add().ask(random.nextInt(2000), 1 + random.nextInt(30))
          case 1 if world.processes.nonEmpty =>
            // Its calls die with it.
            val dying = world.processes(random.nextInt(world.processes.size))
            dying.die()
            dying.underWay = -1000000
            world.processes -= dying
          case 2 => world.isReachable = random.nextInt(3) > 0
          case 3 if world.processes.nonEmpty =>
            world
              .processes(random.nextInt(world.processes.size))
              .ask(random.nextInt(500), 1 + random.nextInt(10))
          case _ => ()
        }
        world.clock.run(world.clock.nowMs + random.nextInt(4000))
        assert(world.most <= limit)
      }
      // Nothing is lost for ever.
      world.isReachable = true
      world.clock.run(world.clock.nowMs + 30000)
      val last = world.add()
      val before = last.done
      last.ask(20, 5)
      world.clock.run(world.clock.nowMs + 120000)
      assert(last.done == before + 20 && world.most <= limit)
    }

  for (
    (starts, intervalMs) <- Seq((1, 1000L), (50, 1000L), (1000, 1000L), (7, 100L), (30, 60000L));
    seed <- 1 to 3
  )
    test(s"no more than $starts calls begin in $intervalMs ms, and few less, seed $seed") {
      val interval = TimeUnit.MILLISECONDS.toNanos(intervalMs)
      val terms = LimitTerms(0, most = starts.toDouble, intervalNanos = interval)
      val world = new World(terms, seed, lost = 0, longestDelayMs = 2)
      val processes = Seq.fill(3)(world.add())
      processes.foreach { process =>
        process.callMs = () => 1L
        process.ask(10000000, 50)
      }
      val span = 20 * intervalMs
      world.clock.run(span)
      val at = world.starts.toIndexedSeq
      var first = 0
      at.indices.foreach { i =>
        while (at(i) - at(first) >= intervalMs) first += 1
        assert(i - first + 1 <= starts)
      }
      val least = if (intervalMs < 1000) 0.78 else if (intervalMs < 60000) 0.96 else 0.97
      assert(at.size >= least * starts * 20 - 1, s"${at.size} of ${starts * 20}")
    }

  for (seed <- 1 to 10) test(s"a limit that adapts falls and rises for all processes together, seed $seed") {
    val world = new World(LimitTerms(40, adaptive = true), seed, 0, 2)
    val processes = Seq.fill(3)(world.add())
    var isDown = false
    processes.foreach { process =>
      process.callMs = () => 20L
      process.isBorne = () => !isDown && processes.map(_.underWay).sum <= 12
      process.ask(10000000, 40)
    }
    world.clock.run(20000)
    assert(world.ledger.limitNow < 30)
    isDown = true
    world.clock.run(40000)
    assert(world.ledger.limitNow == 1)
    world.most = 0
    world.clock.run(45000)
    assert(world.most == 1)
    isDown = false
    world.clock.run(65000)
    assert(world.ledger.limitNow > 4)
  }

  test("who is told to come back later makes all processes wait") {
    val ledger = new LeaseLedger(LimitTerms(10, adaptive = true))
    def waiting(number: Long, pauseNanos: Long) =
      LeaseReport(number, number - 1, 0, 0, isWaiting = true, 0, -1L, pauseNanos)
    assert(ledger.report("a", waiting(1, 5 * Second), 0).pauseNanos == 5 * Second)
    assert(ledger.report("b", waiting(1, 0), Second).pauseNanos == 4 * Second)
    assert(ledger.report("a", waiting(2, Second), Second).pauseNanos == 4 * Second)
    assert(ledger.report("b", waiting(2, 0), 6 * Second).pauseNanos == 0)
  }

  test("a pause ends, however long messages of it take") {
    val world = new World(LimitTerms(4), 8, 0, longestDelayMs = 600)
    val processes = Seq.fill(2)(world.add())
    processes.foreach(_.ask(1000000, 10))
    world.clock.run(5000)
    processes.head.gate.pause(2 * Second)
    world.clock.run(7000)
    val before = processes.map(_.done)
    world.clock.run(10000)
    assert(processes.map(_.done).zip(before).forall { case (now, then) => now > then + 10 })
  }
}
