package io.pillarbox.async

import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.RetryAfter
import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.budget._
import io.pillarbox.metered.journal.{CallKey, CallTicket, TicketJournal}
import io.pillarbox.metered.lease.TestLending
import io.pillarbox.metered.limit._
import io.pillarbox.tags.Nightly
import org.scalatest.funsuite.AnyFunSuite

/**
 * All that a call may wait for, together: each ends, whatever it waits for, nothing stays taken, and a call that
 * waits holds nothing: permits and charges are those of calls under way.
 */
class AdmissionModelSuite extends AnyFunSuite {
  import AdmissionModelSuite._

  test("a call that waits for its limit has no part of the budget, which others have meanwhile") {
    val world = new World(new Random(1), BudgetTerms(Seq("calls" -> 2.0)))
    val task = world.add(
      _.copy(capacity = 1, valueLimiters = Some(world.limiters(_ => Seq(world.rate(1.0)))))
    )
    world.answers = () => true
    world.run(task -> Seq("a1", "a2", "b3"))
    val called = task.h.calls.map(_.input)
    assert(called == Seq("a1", "b3") && task.h.emitted(1).startsWith("a2=>failed BudgetExceeded"))
  }

  for (seed <- 1 to 200) test(s"random calls under budgets and limits all end, seed $seed", byDay(seed): _*) {
    val random = new Random(seed)
    val rows = 10 + random.nextInt(40)
    val most = if (random.nextInt(4) == 0) 1000.0 else (1 + random.nextInt(2 * rows)).toDouble
    val failed = Option.when(random.nextInt(4) == 0)(random.nextInt(5).toLong)
    val world = new World(random, BudgetTerms(Seq("calls" -> most), failedRows = failed))
    val common = world.atOnce(1 + random.nextInt(4))
    val rate = world.rate(1.0 + random.nextInt(20))
    val tasks = Seq.fill(1 + random.nextInt(3)) {
      val ofAll = Seq(common, rate).filter(_ => random.nextBoolean())
      world.add(randomOptions(world, ofAll), ofAll: _*)
    }
    world.run(tasks.map { task =>
      task -> (1 to rows).map(n => s"${"aaabc".charAt(random.nextInt(5))}${random.nextInt(3)}/$n")
    }: _*)
    assert(world.begun <= most)
  }

  private def byDay(seed: Int) = Seq(Nightly).filter(_ => seed > 30)

  private def randomOptions(world: World, ofAll: Seq[Limiter])(of: Options): Options = {
    val random = world.random
    val isKeyed = random.nextInt(3) > 0
    val perSecond = 1.0 + random.nextInt(5)
    val withTickets = !isKeyed && random.nextInt(3) == 0
    of.copy(
      ordered = random.nextBoolean(),
      capacity = 1 + random.nextInt(4),
      limiter = if (isKeyed) Limiter.Unlimited else Limiter.all(ofAll: _*),
      valueLimiters = Option.when(isKeyed)(
        world.limiters(_ => Seq(world.atOnce(1 + random.nextInt(2)), world.rate(perSecond)), ofAll: _*)
      ),
      batching = Option.when(!isKeyed && random.nextBoolean())(Batching(1 + random.nextInt(4), 40)),
      retry = retry(1 + random.nextInt(3), 20),
      keyed = Option.when(random.nextBoolean())(Keyed[String](_.slice(1, 2), 1)),
      callKey = Some(input => CallKey(0L, (if (withTickets) input else input.take(2)).hashCode.toLong)),
      shareCalls = !withTickets && random.nextInt(3) == 0,
      ticketing = Option.when(withTickets)(Ticketing(50, waits = true, new Notes)),
      totalTimeoutMs = if (random.nextBoolean()) 0 else 500L + random.nextInt(5000)
    )
  }
}

private object AdmissionModelSuite {
  private type Options = AsyncOptions[String, String]

  /** Longer than any program takes that ends. */
  private final val LongestMs = 300000L

  private final class ComeBack(ms: Long, override val all: Boolean) extends RuntimeException with RetryAfter {
    override def retryAfterMs: Long = ms
  }

  private final class Notes extends TicketJournal {
    private val kept = mutable.Map.empty[CallKey, CallTicket]
    override def find(key: CallKey): CallTicket = kept.get(key).orNull
    override def keep(key: CallKey, ticket: CallTicket): Unit = kept(key) = ticket
    override def flush(): Unit = ()
  }

  private final class Task(val h: AsyncHarness, val process: Int, val part: BudgetPart, chosen: Options) {
    val put = mutable.Queue.empty[String]

    /** Attempts and polls whose ends the operator has not taken. */
    val begun = mutable.LinkedHashSet.empty[CallAttempt[String, String]]

    /** Those without an end, of which a list is one. */
    def open: Int = begun.toSeq
      .filterNot(_.isDone)
      .distinctBy(attempt => Option[AnyRef](attempt.group).getOrElse(attempt))
      .size

    val isByValue: Boolean = chosen.valueLimiters.isDefined

    /** True if a charge is that of one call under way, and no list gathers with its charges. */
    val isPlain: Boolean = chosen.batching.isEmpty && chosen.ticketing.isEmpty
  }

  /** Tasks of two processes that share a budget, and a service, in virtual time. */
  private final class World(val random: Random, terms: BudgetTerms) {
    val clock = new SimulatedClock
    var begun = 0

    /** True for a call that gets an answer. */
    var answers: () => Boolean = () => random.nextInt(4) > 0
    private val ledger = new BudgetAllocator(terms)
    private val parts = Seq(0, 1).map(process => TestLending.part(terms, clock)(send(process)(_, _)))
    private val slots = mutable.Buffer.empty[LocalLimit]
    private val tasks = mutable.Buffer.empty[Task]

    /** The number of calls under way that each limiter has permitted. */
    private val permitted = mutable.Map.empty[Limiter, Seq[() => Int]].withDefaultValue(Nil)
    private var isStepping = false

    private def send(process: Int)(report: BudgetReport, answer: BudgetGrant => Unit): Unit = {
      val sharing = tasks.filter(_.process == process)
      if (!isStepping && sharing.forall(_.isPlain))
        assert(report.underWay <= sharing.map(_.begun.size).sum, "a call that waits is charged")
      clock.in(random.nextInt(5).toLong) {
        val grant = Option(ledger.report("query", process.toString, report, clock.nanoTime))
        clock.in(random.nextInt(5).toLong)(grant.foreach(answer))
      }
    }

    def atOnce(most: Int): LocalLimit = {
      slots += TestLimit.ofCalls(most, clock)
      slots.last
    }

    def rate(perSecond: Double) = TestLimit.ofRate(perSecond, TimeUnit.SECONDS.toNanos(1), 1, clock)

    /** The limits of each first letter, and those of all. */
    def limiters(own: String => Seq[Limiter], common: Limiter*): ValueLimiters[String] =
      new ValueLimiters[String] {
        private val kept = mutable.Map.empty[String, Seq[Limiter]]
        override def valueOf(input: String): AnyRef = input.take(1)
        override def open(value: AnyRef): ValueLimiter = new ValueLimiter {
          private val made = kept.getOrElseUpdate(value.toString, own(value.toString))
          override val limiter: Limiter =
            Limiter.ofUnits((common ++ made).map(_ -> Limiter.Calls), made.contains)
          override def close(): Unit = ()
        }
      }

    /** @param common the limits of all calls of the task */
    def add(change: Options => Options, common: Limiter*): Task = {
      val process = random.nextInt(parts.size)
      val part = parts(process)
      val chosen = change(options().copy(budget = Some(part), onFailure = FailureAsRow))
      val task = new Task(new AsyncHarness(chosen), process, part, chosen)
      tasks += task
      common.foreach(limiter => permitted(limiter) :+= (() => task.open))
      task.h.onInvoke = call => {
        begun += 1
        task.begun += call.future.asInstanceOf[CallAttempt[String, String]]
        val open = task.h.calls.filterNot(_.future.isDone).map(_.input)
        assert(open.size <= chosen.capacity)
        chosen.keyed.foreach(keyed => assert(open.map(keyed.keyOf).distinct.size == open.size))
        clock.in(1L + random.nextInt(60))(end(task, call.future, chosen.ticketing.isDefined))
      }
      task.h.onCollect = poll =>
        poll.futures.foreach { future =>
          task.begun += future.asInstanceOf[CallAttempt[String, String]]
          clock.in(5)(end(task, future, true))
        }
      task
    }

    private def end(task: Task, future: ElementFuture[String], mayWait: Boolean): Unit = {
      val isPoll = task.h.polls.exists(_.futures.contains(future))
      if (mayWait && random.nextBoolean()) {
        val batch = task.h.operator.completionBatch()
        batch.pending(future, if (isPoll) null else CallTicket(s"ticket ${random.nextInt()}", 0, 1))
        batch.flush()
      } else if (answers()) future.completeOne("x")
      else if (random.nextBoolean()) future.completeExceptionally(new ArithmeticException)
      else future.completeExceptionally(new ComeBack(random.nextInt(100).toLong, random.nextBoolean()))
    }

    /** Gives the tasks their rows, and lets time go on until all have left. */
    def run(tasks: (Task, Seq[String])*): Unit = {
      tasks.foreach { case (task, rows) => task.put ++= rows }
      while (!tasks.forall { case (task, _) => task.put.isEmpty && task.h.operator.isDrained }) {
        isStepping = true
        tasks.foreach { case (task, _) => step(task) }
        checkNothingIsHeld()
        isStepping = false
        clock.run(clock.nowMs + 5)
        assert(clock.nowMs < LongestMs, "some call never ends")
      }
      tasks.foreach { case (task, rows) =>
        assert(task.h.emitted.map(_.takeWhile(_ != '=')).sorted == rows.sorted)
        assert(task.h.metrics.inFlight == 0)
        task.part.release()
      }
      clock.run(clock.nowMs + 5000)
      assert(slots.forall(_.inUse == 0))
      if (terms.failedRows.isEmpty) assert(ledger.charged("query").amounts == Seq(begun.toDouble))
    }

    /** Lets all mail run, after which no permit is on its way to a call. */
    private def checkNothingIsHeld(): Unit = {
      (1 to 3).foreach(_ => tasks.foreach(_.h.runMail()))
      tasks.foreach(task => task.begun.filterInPlace(!_.isDone))
      permitted.foreach {
        case (limiter: LocalLimit, users) =>
          assert(limiter.inUse == users.map(_.apply()).sum, "a call that waits has a permit")
        case _ => ()
      }
      val ofValues = slots.filterNot(permitted.contains)
      val open = tasks.filter(_.isByValue).map(_.open).sum
      assert(
        ofValues.isEmpty || ofValues.map(_.inUse).sum == open,
        "a call that waits has its value's permit"
      )
    }

    private def step(task: Task): Unit = {
      val operator = task.h.operator
      task.h.advanceTo(clock.nowMs)
      while (task.put.nonEmpty && operator.tryProcessElement(task.put.front, 0)) task.put.dequeue(): Unit
      if (task.put.isEmpty) operator.endInputReached()
      else if (random.nextInt(10) == 0) operator.inputPauses()
      task.h.runMail()
    }
  }
}
