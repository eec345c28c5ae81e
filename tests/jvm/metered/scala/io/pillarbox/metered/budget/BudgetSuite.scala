package io.pillarbox.metered.budget

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.metered.lease.{Network, TestLending}
import io.pillarbox.metered.limit.SimulatedClock
import org.scalatest.funsuite.AnyFunSuite

/** One budget over many processes, whose messages are lost, late and out of order, and which die. */
class BudgetSuite extends AnyFunSuite {
  private val Enough = 1000000

  private def calls(most: Long) = BudgetTerms(Seq("calls" -> most.toDouble))

  private def tokens(most: Double) = BudgetTerms(Seq("tokens" -> most))

  /**
   * @param lost of 100 messages, so many, each way
   * @param use what a call uses of a unit that is not "calls"
   */
  private final class World(terms: BudgetTerms, seed: Int, lost: Int = 0, longestDelayMs: Int = 2) {
    val network = new Network(seed, lost, longestDelayMs)
    import network.{clock, random}
    network.begin(terms, BudgetSpent.none(terms.units))
    val processes = mutable.Buffer.empty[Process]
    var use: () => Double = () => 1.0
    var isFailing = false

    /** Attempts that began, and what they used or will use, of dead processes too. */
    var begun = 0
    var used = 0.0

    def add(): Process = {
      processes += new Process
      processes.last
    }

    def counted: BudgetSpent = network.budget.spent

    def charged: Seq[Double] = network.budget.charged("query").amounts

    /** All processes are gone, and another driver goes on from what was written. */
    def restart(): Unit = {
      processes.foreach(_.die())
      processes.clear()
      network.begin(terms, network.written)
    }

    def run(ms: Long): Unit = network.run(ms)

    final class Process {
      private val process = network.add()
      var callMs: () => Long = () => 5L + random.nextInt(50)
      var done = 0
      var underWay = 0
      var refused = 0
      private var wanted = 0

      val part = new BudgetPart("query", terms, clock, process.borrower)

      /** Makes so many calls, `atOnce` at a time. */
      def ask(calls: Int, atOnce: Int): Unit = {
        wanted += calls
        (1 to atOnce).foreach(_ => next())
      }

      private def next(): Unit = if (process.isAlive && wanted > 0) {
        wanted -= 1
        call()
      }

      private def call(): Unit = if (process.isAlive) part.take(() => call()) match {
        case null => begin()
        case BudgetPart.Wait => ()
        case _ =>
          refused += 1
          // The rest would be told the same.
          wanted = math.min(wanted, 100)
          // As a mail of its own.
          clock.in(0)(next())
      }

      private def begin(): Unit = {
        begun += 1
        underWay += 1
        val uses = use()
        used += uses
        val fails = isFailing
        clock.in(callMs())(if (process.isAlive) {
          underWay -= 1
          done += 1
          part.ended(_ => uses, isKnown = true)
          part.rowEnded(fails)
          next()
        })
      }

      def die(): Unit = process.die()
    }
  }

  test("several processes use up a budget exactly, and then each is told") {
    for (most <- Seq(1, 7, 100, 5003); seed <- 1 to 5) {
      val world = new World(calls(most.toLong), seed)
      (1 to 4).foreach(_ => world.add().ask(Enough, 20))
      world.run(120000)
      assert(world.begun == most && world.charged == Seq(most.toDouble), s"of $most")
      assert(world.processes.forall(process => process.refused > 0 && process.underWay == 0))
    }
  }

  test("what an answer has lent that was lost comes back, though the process wants nothing any more") {
    for (lost <- 1 to 3) {
      val clock = new SimulatedClock
      val budget = new BudgetAllocator(calls(100))
      var sent = 0
      val part = TestLending.part(calls(100), clock) { (told, answer) =>
        sent += 1
        val isLost = sent <= lost
        val grant = budget.report("query", "p", told, clock.nanoTime)
        if (!isLost) clock.in(1)(answer(grant))
      }
      val waiter: Runnable = () => ()
      assert(part.take(waiter) eq BudgetPart.Wait)
      assert(budget.charged("query").amounts.head > 0)
      part.forget(waiter)
      clock.run(60000)
      assert(budget.charged("query").amounts == Seq(0.0), s"$lost answers lost")
      val reports = sent
      clock.run(120000)
      assert(sent == reports, "and then it is silent")
    }
  }

  test("a process that is alone makes as many calls as its capacity allows, from the first second on") {
    val world = new World(calls(10000000), 1)
    val process = world.add()
    process.callMs = () => 1L
    process.ask(Enough, 200)
    world.run(1000)
    assert(process.done > 0.7 * 200 * 1000)
  }

  test("what a process does not need goes back within a second, and nothing is left under way") {
    val world = new World(calls(1000), 2)
    val (first, second) = (world.add(), world.add())
    first.ask(100, 10)
    world.run(2000)
    assert(first.done == 100 && world.charged == Seq(100.0))
    second.ask(Enough, 10)
    world.run(60000)
    assert(world.begun == 1000 && second.done == 900)
  }

  test("a part that is released gives everything back with its next message") {
    val world = new World(calls(1000), 3)
    val process = world.add()
    process.ask(20, 20)
    world.run(100)
    process.part.release()
    world.run(10)
    assert(world.charged == Seq(20.0))
  }

  test("what a process that died has not told of counts as spent, after ten seconds at most") {
    val world = new World(calls(200), 4)
    val (first, second) = (world.add(), world.add())
    first.callMs = () => 100000L
    first.ask(5, 5)
    world.run(20)
    first.die()
    second.ask(Enough, 10)
    world.run(15000)
    assert(second.refused > 0 && world.begun > 150 && world.begun <= 200)
  }

  test("calls go on with what there is while the driver can't be reached, and then wait") {
    val world = new World(calls(1000000), 5)
    val process = world.add()
    process.ask(Enough, 10)
    world.run(1000)
    world.network.isReachable = false
    world.run(20000)
    val begun = world.begun
    world.run(20000)
    assert(world.begun == begun && process.refused == 0)
    world.network.isReachable = true
    world.run(1000)
    assert(world.begun > begun)
  }

  for (seed <- 1 to 40)
    test(s"random processes, messages, deaths and restarts: never more than the budget, seed $seed") {
      val random = new Random(seed)
      val most = 1 + random.nextInt(3000)
      val world = new World(calls(most.toLong), seed, random.nextInt(40), 1 + random.nextInt(600))
      var isLossless = true
      (1 to 40).foreach { _ =>
        random.nextInt(8) match {
          case 0 => world.add().ask(random.nextInt(300), 1 + random.nextInt(30))
          case 1 if world.processes.nonEmpty =>
            isLossless = false
            val dying = world.processes(random.nextInt(world.processes.size))
            dying.die()
            world.processes -= dying
          case 2 => world.network.isReachable = random.nextInt(3) > 0
          case 3 if world.processes.nonEmpty =>
            world
              .processes(random.nextInt(world.processes.size))
              .ask(random.nextInt(99), 1 + random.nextInt(9))
          case 4 if world.processes.nonEmpty =>
            world.processes(random.nextInt(world.processes.size)).part.release()
          case 5 if random.nextInt(4) == 0 =>
            isLossless = false
            world.restart()
          case _ => ()
        }
        world.run(random.nextInt(4000).toLong)
        assert(world.begun <= most && world.charged.head <= most)
      }
      // Nobody waits for ever, and what nobody has lost is used.
      world.network.isReachable = true
      world.run(30000)
      world.add().ask(Enough, 5)
      world.run(1000000)
      assert(world.processes.last.refused > 0 && world.begun <= most)
      assert(world.processes.forall(_.underWay == 0))
      if (isLossless) assert(world.begun == most)
    }

  for (seed <- 1 to 10)
    test(s"what calls report is counted, and never comes to more than the budget by one mean, seed $seed") {
      val random = new Random(seed)
      val (most, each) = (1000.0 + random.nextInt(100000), 1.0 + random.nextInt(9))
      val world = new World(tokens(most), seed, random.nextInt(30), 1 + random.nextInt(300))
      world.use = () => each
      (1 to 4).foreach(_ => world.add().ask(Enough, 20))
      world.run(3000000)
      assert(world.used <= most && world.used > most - each, s"each uses $each")
      assert(world.processes.forall(_.refused > 0))
    }

  test("amounts that vary exceed a budget by no more than those under way exceed the mean") {
    for (seed <- 1 to 20) {
      val world = new World(tokens(100000), seed)
      world.use = () => 10.0 + world.network.random.nextInt(41)
      (1 to 3).foreach(_ => world.add().ask(Enough, 10))
      world.run(1000000)
      assert(math.abs(world.used - 100000) < 30 * 20, world.used)
    }
  }

  test("before anything is known, a hundred calls are under way at the most") {
    val world = new World(tokens(1000), 1)
    (1 to 4).foreach { _ =>
      val process = world.add()
      process.callMs = () => 5000L
      process.ask(Enough, 1000)
    }
    world.run(4000)
    assert(world.begun <= 100 && world.begun > 80)
    world.use = () => 0.0
    world.run(20000)
    assert(world.counted.amounts.head == world.counted.reported.head)
  }

  test("calls that report nothing cost nothing, and those that were cut off cost the mean") {
    val world = new World(tokens(1000), 1)
    world.use = () => 0.0
    val process = world.add()
    process.ask(5000, 10)
    world.run(600000)
    assert(process.done == 5000 && process.refused == 0 && world.charged == Seq(0.0))
    world.use = () => 2.0
    process.ask(100, 10)
    world.run(60000)
    assert(world.charged == Seq(200.0))
    process.part.take(() => ())
    world.run(100)
    assert(process.part.take(() => ()) == null)
    process.part.ended(_ => 0.0, isKnown = false)
    world.run(2000)
    assert(world.charged == Seq(202.0))
  }

  test("rows that fail end it, when more have failed than may and no later than what is then under way") {
    for (seed <- 1 to 10) {
      val world = new World(BudgetTerms(Nil, failedRows = Some(50)), seed, lost = 5, longestDelayMs = 50)
      world.isFailing = true
      (1 to 3).foreach(_ => world.add().ask(Enough, 10))
      world.run(100000)
      assert(world.begun > 50 && world.begun <= 50 + 30 + 30, world.begun)
      assert(world.processes.forall(_.refused > 0))
    }
  }

  test("a share of failed rows counts from the hundredth row on") {
    val world = new World(BudgetTerms(Nil, failedShare = Some(0.02)), 1)
    world.isFailing = true
    val process = world.add()
    process.ask(99, 10)
    world.run(60000)
    assert(process.done == 99 && process.refused == 0)
    process.ask(Enough, 10)
    world.run(60000)
    assert(process.refused > 0 && process.done < 99 + 20)
    val good = new World(BudgetTerms(Nil, failedShare = Some(0.02)), 1)
    val many = good.add()
    many.ask(20000, 10)
    good.network.clock.in(20000)(good.isFailing = true)
    good.run(10000000)
    val before = good.counted.rows - good.counted.failed
    assert(many.refused > 0 && good.counted.failed > 0.02 * good.counted.rows && before > 1000)
    assert(good.counted.failed < 0.02 * good.counted.rows + 25)
  }

  test("whoever ends without another attempt hears whether too many rows have failed, in all processes") {
    for (lost <- Seq(0, 40); mayFail <- Seq(0L, 9L, 20L)) {
      val world = new World(BudgetTerms(Nil, failedRows = Some(mayFail)), 3, lost)
      world.isFailing = true
      val ends = (1 to 2).map { _ =>
        val process = world.add()
        process.ask(10, 10)
        val heard = mutable.Buffer.empty[AnyRef]
        lazy val ask: Runnable = () => {
          val answer = process.part.settle(ask)
          if (answer ne BudgetPart.Wait) heard += answer
        }
        world.network.clock.in(200)(ask.run())
        (process, heard)
      }
      world.run(60000)
      val exceeded = ends.flatMap(_._2).filter(_ ne null).map(_.asInstanceOf[BudgetExceeded])
      assert(ends.forall { case (_, heard) => heard.size == 1 }, s"$mayFail rows, lost $lost")
      assert(exceeded.nonEmpty == mayFail < 20 && exceeded.forall(_.isFailedRows))
    }
  }

  test("whoever ends is not held up by rows that end after it") {
    val world = new World(BudgetTerms(Nil, failedShare = Some(0.5)), 4)
    val busy = world.add()
    busy.ask(Enough, 20)
    var isSettled = false
    lazy val ask: Runnable = () => isSettled = (busy.part.settle(ask) ne BudgetPart.Wait)
    world.network.clock.in(1000)(ask.run())
    world.run(1500)
    assert(isSettled && busy.underWay > 0)
    val silent = TestLending.part(calls(1), world.network.clock)((_, _) => fail("nothing to ask"))
    assert(silent.settle(ask) eq null)
  }

  test("two accounts of one budget share it, and one begins anew from what was written") {
    val budget = new BudgetAllocator(calls(100))
    def asks(number: Long) =
      BudgetReport(number, 1000, isWaiting = true, 0, Vector(0.0), BudgetSpent.none(1))
    budget.begin("a", BudgetSpent.none(1).copy(amounts = Vector(30.0)))
    budget.begin("b", BudgetSpent.none(1).copy(amounts = Vector(20.0)))
    val granted = budget.report("a", "p", asks(1), 0).ceiling.head
    assert(granted == 1.0 && budget.charged("a").amounts.head == 31.0)
    assert(budget.report("a", "p", asks(1), 0) == null)
    budget.begin("a", budget.charged("a"))
    assert(budget.report("b", "q", asks(1), 0).ceiling.head == 1.0)
    assert(budget.spent.amounts.head == 51.0)
  }

  test("a process that was silent for hours counts once when it reports again") {
    val budget = new BudgetAllocator(calls(100))
    val hour = java.util.concurrent.TimeUnit.HOURS.toNanos(1)
    def report(process: String, number: Long, spent: Double, ceiling: Double, at: Long) = budget.report(
      "a",
      process,
      BudgetReport(
        number,
        0,
        isWaiting = false,
        0,
        Vector(ceiling),
        calls(100).nothing.copy(amounts = Vector(spent))
      ),
      at
    )
    report("p", 1, 30, 40, 0): Unit
    report("q", 1, 0, 0, 2 * hour): Unit
    assert(budget.spent.amounts.head == 40 && budget.charged("a").amounts.head == 40)
    report("p", 2, 35, 35, 4 * hour): Unit
    assert(budget.spent.amounts.head == 35 && budget.charged("a").amounts.head == 35)
  }
}
