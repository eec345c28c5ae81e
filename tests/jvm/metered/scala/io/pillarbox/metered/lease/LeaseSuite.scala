package io.pillarbox.metered.lease

import java.util.concurrent.TimeUnit

import scala.util.Random

import io.pillarbox.metered.limit.LimitTerms
import org.scalatest.funsuite.AnyFunSuite

/** One limit over many processes, whose messages are lost, late and out of order, and which die. */
class LeaseSuite extends AnyFunSuite {
  private val Second = TimeUnit.SECONDS.toNanos(1)

  private def fill(
      network: Network,
      terms: LimitTerms,
      processes: Int,
      atOnce: Int = 10
  ): Seq[network.Caller] = {
    val callers = Seq.fill(processes)(network.caller(terms))
    callers.foreach(_.ask(Int.MaxValue, atOnce))
    callers
  }

  test("a process that is alone gets the whole limit at once, and gives it back when it needs it no more") {
    val network = new Network(1)
    val caller = network.caller(LimitTerms(8))
    caller.ask(100, 20)
    network.run(50)
    assert(network.most == 8)
    network.run(2000)
    assert(caller.done == 100 && caller.limit.limitNow == 0 && !network.lender.isInUse("limit"))
  }

  test("permits that are idle while others wait go to them within a second") {
    val network = new Network(2)
    val (first, second) = (network.caller(LimitTerms(10)), network.caller(LimitTerms(10)))
    first.lastsMs = () => 30000L
    second.lastsMs = () => 30000L
    first.ask(10, 10)
    network.run(100)
    assert(first.underWay == 10)
    network.run(30000 - 600)
    second.ask(20, 20)
    // The calls of the first have ended, and it asks no more.
    network.run(1500)
    assert(second.underWay == 10)
  }

  test("those that wait share what there is, and of too little each gets its turn") {
    val network = new Network(3)
    val callers = fill(network, LimitTerms(12), 3, atOnce = 20)
    network.run(20000)
    assert(callers.map(_.done).max < 1.2 * callers.map(_.done).min)
    val narrow = new Network(4)
    val many = fill(narrow, LimitTerms(2), 5, atOnce = 20)
    narrow.run(60000)
    assert(many.forall(_.done > 200), many.map(_.done))
    assert(narrow.most == 2)
  }

  test("a process that died leaves its permits after its lease, not before") {
    val network = new Network(5)
    val first = network.caller(LimitTerms(4))
    first.lastsMs = () => 60000L
    first.ask(4, 4)
    network.run(100)
    first.process.die()
    val second = fill(network, LimitTerms(4), 1).head
    network.run(9400)
    assert(second.done == 0)
    network.run(2000)
    assert(second.done > 50 && network.most == 4)
  }

  test("while the lender can't be reached a process uses what it has until its lease ends, and then waits") {
    val network = new Network(6)
    val caller = fill(network, LimitTerms(4), 1).head
    network.run(1000)
    network.isReachable = false
    network.run(8000)
    assert(caller.done > 500)
    network.run(2100)
    val ended = caller.done
    network.run(9000)
    assert(caller.done == ended && caller.underWay == 0)
    network.isReachable = true
    network.run(1000)
    assert(caller.done > ended && network.most == 4)
  }

  test("a lender that starts anew waits for nobody, and learns what each has") {
    val network = new Network(7)
    val callers = fill(network, LimitTerms(6), 2)
    network.run(3000)
    val before = callers.map(_.done)
    network.lender = network.newLender()
    network.run(3000)
    assert(callers.map(_.done).zip(before).forall { case (now, then) => now > then + 50 })
  }

  for (seed <- 1 to 40)
    test(s"random processes, messages and deaths: never more than the limit, seed $seed") {
      val random = new Random(seed)
      val limit = 1 + random.nextInt(20)
      val network = new Network(seed, random.nextInt(40), 1 + random.nextInt(600))
      (1 to 60).foreach { _ =>
        random.nextInt(6) match {
          case 0 => network.caller(LimitTerms(limit)).ask(random.nextInt(2000), 1 + random.nextInt(30))
          case 1 => network.anyLiving().foreach(_.process.die())
          case 2 => network.isReachable = random.nextInt(3) > 0
          case 3 => network.anyLiving().foreach(_.ask(random.nextInt(500), 1 + random.nextInt(10)))
          case _ => ()
        }
        network.run(random.nextInt(4000).toLong)
        assert(network.most <= limit)
      }
      // Nothing is lost for ever.
      network.isReachable = true
      network.run(30000)
      val last = network.caller(LimitTerms(limit))
      last.ask(20, 5)
      network.run(120000)
      assert(last.done == 20 && network.most <= limit)
    }

  for (
    (starts, intervalMs) <- Seq((1, 1000L), (50, 1000L), (1000, 1000L), (7, 100L), (30, 60000L));
    seed <- 1 to 3
  )
    test(s"no more than $starts calls begin in $intervalMs ms, and few less, seed $seed") {
      val interval = TimeUnit.MILLISECONDS.toNanos(intervalMs)
      val network = new Network(seed)
      val terms = LimitTerms(0, most = starts.toDouble, intervalNanos = interval)
      fill(network, terms, 3, atOnce = 50).foreach(_.lastsMs = () => 1L)
      network.run(20 * intervalMs)
      network.oracle.check(starts.toDouble, interval)
      val least = if (intervalMs < 1000) 0.78 else if (intervalMs < 60000) 0.96 else 0.97
      assert(network.oracle.total >= least * starts * 20 - 1, s"${network.oracle.total} of ${starts * 20}")
    }

  for (seed <- 1 to 10) test(s"a limit that adapts falls and rises for all processes together, seed $seed") {
    val network = new Network(seed)
    val callers = fill(network, LimitTerms(40, adaptive = true), 3, atOnce = 40)
    var isDown = false
    callers.foreach { caller =>
      caller.lastsMs = () => 20L
      caller.isBorne = () => !isDown && callers.map(_.underWay).sum <= 12
    }
    def limitNow = network.lender.known("limit").head.limitNow
    network.run(20000)
    assert(limitNow < 30)
    isDown = true
    network.run(20000)
    assert(limitNow == 1)
    network.most = 0
    network.run(5000)
    assert(network.most == 1)
    isDown = false
    network.run(20000)
    assert(limitNow > 4)
  }

  test("who is told to come back later makes all processes wait") {
    val limit = new LimitAllocator(LimitTerms(10, adaptive = true))
    def waiting(number: Long, pauseNanos: Long) = {
      val terms = LimitTerms(10, adaptive = true)
      LimitReport(None, terms, number, number - 1, 0, 0, isWaiting = true, 0, -1L, pauseNanos)
    }
    assert(limit.report("a", waiting(1, 5 * Second), 0).pauseNanos == 5 * Second)
    assert(limit.report("b", waiting(1, 0), Second).pauseNanos == 4 * Second)
    assert(limit.report("a", waiting(2, Second), Second).pauseNanos == 4 * Second)
    assert(limit.report("b", waiting(2, 0), 6 * Second).pauseNanos == 0)
  }

  test("a pause ends, however long messages of it take") {
    val network = new Network(8, longestDelayMs = 600)
    val callers = fill(network, LimitTerms(4), 2)
    network.run(5000)
    callers.head.limit.pause(2 * Second)
    network.run(2000)
    val before = callers.map(_.done)
    network.run(3000)
    assert(callers.map(_.done).zip(before).forall { case (now, then) => now > then + 10 })
  }
}
