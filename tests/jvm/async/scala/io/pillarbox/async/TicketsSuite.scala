package io.pillarbox.async

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.pillarbox.api.NotRetryable
import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.budget.{BudgetAllocator, BudgetTerms}
import io.pillarbox.metered.journal.{CallKey, CallTicket, TicketJournal}
import io.pillarbox.metered.lease.TestLending
import io.pillarbox.metered.limit._
import io.pillarbox.metered.usage.UsageUnits
import org.scalatest.funsuite.AnyFunSuite

/** Calls in two halves: submitted for a ticket, and collected later. */
class TicketsSuite extends AnyFunSuite {
  import TicketsSuite._

  private type Options = AsyncOptions[String, String]

  private def harness(journal: Tickets, waits: Boolean = true)(change: Options => Options = identity) =
    new AsyncHarness(
      change(
        options(ordered = false, capacity = 20000).copy(
          callKey = Some(keyOf),
          ticketing = Some(Ticketing(PollMs, waits, journal, _.isInstanceOf[Over])),
          onFailure = FailureAsRow
        )
      )
    )

  private def inPairs(options: Options): Options = options.copy(batching = Some(Batching(2, PollMs)))

  test("a ticket is polled until it is answered, and its row leaves then") {
    val h = harness(new Tickets)()
    h.process("a")
    h.issue("t", "a")
    h.advanceTo(PollMs - 1)
    assert(h.polls.isEmpty && h.emitted.isEmpty)
    h.advanceTo(PollMs)
    h.notYet(h.polls.head)
    h.advanceTo(2 * PollMs)
    h.collected(h.polls(1))
    assert(h.emitted == Seq("a=>t.0") && h.calls.size == 1 && h.polls.size == 2)
    assert(h.metrics.calls == 1 && h.metrics.polls == 2 && h.metrics.retries == 0)
    assert(h.operator.isDrained && h.time.scheduledTimers == 0)
  }

  test("a ticket is safe before the call does anything else, also before its row leaves as pending") {
    val journal = new Tickets
    val h = harness(journal, waits = false)()
    h.onInvoke = call => assert(journal.unwritten.isEmpty, call)
    h.process("a", "b")
    h.issue("t", "a")
    assert(journal.flushed == Map("a" -> CallTicket("t", 0, 1)))
    assert(h.emitted == Seq("a=>failed PendingException after 1 in 0") && h.metrics.errors == 0)
    h.issue("u", "b")
    assert(journal.flushes == 2 && h.operator.isDrained && h.time.scheduledTimers == 0)
  }

  test("after a kill what has a ticket is collected, at once and together, and the rest submitted") {
    val journal = new Tickets
    val first = harness(journal)(inPairs)
    first.process("a", "b", "c", "d", "e", "f")
    first.issue("t", "a", "b")
    first.issue("u", "c", "d")
    // Not safe when the process dies.
    assert(first.groups.last == Seq("e", "f"))
    val again = harness(journal)(inPairs)
    again.process("c", "a", "x", "b", "e", "d", "f")
    assert(
      again.polls.map(poll => (poll.ticket, poll.inputs, poll.places)) == Seq(
        ("t", Seq("a", "b"), Seq(0, 1)),
        ("u", Seq("c", "d"), Seq(0, 1))
      )
    )
    again.operator.endInputReached()
    assert(again.groups == Seq(Seq("x", "e"), Seq("f")))
    again.polls.toSeq.foreach(again.collected)
    again.answer("x", "e", "f")
    assert(again.emitted.toSet == Set("a=>t.0", "b=>t.1", "c=>u.0", "d=>u.1", "x=>x1", "e=>e1", "f=>f1"))
  }

  test("a part of a ticket polls by itself when its company does not come, or the input ends") {
    val journal = new Tickets("b" -> CallTicket("t", 1, 3), "c" -> CallTicket("t", 2, 3))
    val waiting = harness(journal)(inPairs)
    waiting.process("b", "c")
    waiting.advanceTo(PollMs - 1)
    assert(waiting.polls.isEmpty)
    waiting.advanceTo(PollMs)
    assert(waiting.polls.map(_.places) == Seq(Seq(1, 2)))
    val ended = harness(journal)(inPairs)
    ended.process("c")
    ended.operator.endInputReached()
    ended.collected(ended.polls.head)
    assert(ended.emitted == Seq("c=>t.2") && ended.operator.isDrained)
  }

  test("ten thousand tickets hold no permit, and are polled by four calls at a time") {
    val limiter = TestLimit.ofCalls(4)
    val h = harness(new Tickets)(_.copy(limiter = limiter, lookAhead = 0))
    val all = (0 until 10000).map(n => s"row$n")
    var atATime, most = 0
    val rounds = mutable.Map.empty[String, Int].withDefaultValue(0)
    val open = mutable.Queue.empty[() => Unit]
    def begin(end: => Unit): Unit = {
      atATime += 1
      most = math.max(most, atATime)
      open += { () =>
        atATime -= 1
        end
      }
    }
    h.onInvoke = call => begin(h.issue(s"ticket of ${call.input}", call.input))
    h.onCollect = poll =>
      begin {
        rounds(poll.ticket) += 1
        if (rounds(poll.ticket) < 3) h.notYet(poll) else h.collected(poll)
      }
    def answerAll(): Unit = while (open.nonEmpty) open.dequeue()()
    h.process(all: _*)
    answerAll()
    assert(h.calls.size == 10000 && limiter.inUse == 0 && h.polls.isEmpty && h.metrics.inFlight == 10000)
    for (round <- 1 to 3) {
      h.advanceTo(round * PollMs)
      answerAll()
      assert(h.polls.size == round * 10000 && limiter.inUse == 0)
    }
    assert(most == 4 && h.emitted.size == 10000 && h.operator.isDrained)
    assert(h.emitted.toSet == all.map(input => s"$input=>ticket of $input.0").toSet)
  }

  test("a poll that fails is retried, as often in a row as the retry says, and the ticket stays") {
    val journal = new Tickets
    val h = harness(journal)(_.copy(retry = retry(2, 10)))
    h.process("a")
    h.fail("a")
    h.advanceTo(10)
    h.issue("t", "a")
    for (round <- 1L to 5L) {
      h.advanceTo(10 + round * (PollMs + 10) - 10)
      h.polls.last.futures.head.completeExceptionally(new RuntimeException("no luck"))
      h.runMail()
      h.advanceTo(10 + round * (PollMs + 10))
      assert(h.polls.size == 2 * round)
      h.notYet(h.polls.last)
    }
    h.advanceTo(10 + 5 * (PollMs + 10) + PollMs)
    for (_ <- 1 to 2) {
      h.polls.last.futures.head.completeExceptionally(new RuntimeException("no luck"))
      h.runMail()
      h.advanceTo(h.time.currentProcessingTime + 10)
    }
    assert(h.emitted.size == 1 && h.emitted.head.startsWith("a=>failed RuntimeException after 9 in "))
    assert(h.calls.size == 2 && journal.flushed("a").text == "t")
  }

  test("a submission that fails is made again as it was, whatever waits for company meanwhile") {
    val h = harness(new Tickets)(options => inPairs(options).copy(retry = retry(3, 100)))
    h.process("a", "b", "c", "d", "e")
    Seq("b", "a", "d", "c").foreach(h.fail(_))
    h.advanceTo(100)
    assert(h.groups.size == 4 && h.groups.takeRight(2).toSet == Set(Seq("a", "b"), Seq("c", "d")))
    h.issue("t", "a", "b")
    h.process("f")
    assert(h.groups.last == Seq("e", "f"))
    h.fail("c")
    h.fail("d")
    h.advanceTo(200)
    assert(h.groups.last == Seq("c", "d") && h.groups.size == 6)
  }

  test("a submission whose failures come one after the other is made again as it was, without a delay too") {
    val h =
      harness(new Tickets)(options => options.copy(batching = Some(Batching(4, PollMs)), retry = retry(3, 0)))
    h.process("a", "b", "c", "d")
    h.operator.endInputReached()
    Seq("a", "b", "c").foreach { input =>
      h.fail(input)
      h.advanceTo(h.time.currentProcessingTime)
      assert(h.groups.size == 1, "others are on their way")
    }
    h.fail("d")
    h.advanceTo(h.time.currentProcessingTime)
    assert(h.groups == Seq.fill(2)(Seq("a", "b", "c", "d")))
    h.fail("a")
    h.fail("b")
    h.issue("t", "c", "d")
    assert(h.groups.last == Seq("a", "b"), "the others have a ticket now")
  }

  test("of a submission that fails, what is left is made again, at the end of the input or after a while") {
    val ended = harness(new Tickets)(options => inPairs(options).copy(retry = retry(3, 100)))
    ended.process("a", "b")
    ended.fail("a", new RuntimeException with NotRetryable)
    ended.fail("b")
    ended.operator.endInputReached()
    ended.advanceTo(100)
    assert(ended.groups.last == Seq("b") && ended.emitted.size == 1)
    val open = harness(new Tickets)(options => inPairs(options).copy(retry = retry(3, 100)))
    open.process("a", "b")
    open.fail("a", new RuntimeException with NotRetryable)
    open.fail("b")
    open.advanceTo(100)
    open.advanceTo(100 + PollMs - 1)
    assert(open.groups.size == 1)
    open.advanceTo(100 + PollMs)
    assert(open.groups.last == Seq("b") && open.time.scheduledTimers == 0)
  }

  test("at the end of the input each answer costs nothing for those that wait") {
    val h = harness(new Tickets)()
    val all = (0 until 1000).map(n => s"row$n")
    h.process(all: _*)
    h.operator.endInputReached()
    all.foreach(input => h.issue(s"of $input", input))
    h.advanceTo(PollMs - 1)
    assert(h.polls.isEmpty, "a pause of the input is no reason to ask again")
    h.advanceTo(PollMs)
    h.polls.toSeq.foreach(h.collected)
    assert(h.polls.size == 1000 && h.operator.isDrained && h.time.scheduledTimers == 0)
  }

  test("a ticket that has ended with a failure is given up: a retry, or another run, submits anew") {
    val journal = new Tickets
    val h = harness(journal)(options => inPairs(options).copy(retry = retry(2, 10)))
    val rounds = mutable.Buffer.empty[Int]
    h.onInvoke = call => rounds += call.future.ticketRound
    h.process("a", "b")
    h.issue("t", "a", "b")
    h.advanceTo(PollMs)
    val poll = h.polls.head
    poll.futures.head.completeExceptionally(new Over)
    poll.futures(1).completeOne("good")
    h.runMail()
    assert(h.emitted == Seq("b=>good") && journal.flushed("a") == CallTicket(null, 0, 0, 1))
    h.operator.endInputReached()
    h.advanceTo(PollMs + 10)
    assert(h.groups == Seq(Seq("a", "b"), Seq("a")) && rounds == Seq(0, 0, 1))
    h.issue("u", "a")
    val again = harness(journal)(inPairs)
    again.process("a")
    again.operator.endInputReached()
    again.polls.head.futures.head.completeExceptionally(new Over with NotRetryable)
    again.runMail()
    assert(again.emitted.size == 1 && journal.flushed("a").round == 2)
    val last = harness(journal)(inPairs)
    last.process("a")
    last.operator.endInputReached()
    assert(last.polls.isEmpty && last.calls.head.future.ticketRound == 2)
  }

  test("a failed row names the call that was made last, which has an id of its own after each ticket") {
    val journal = new Tickets
    val h = harness(journal)(
      _.copy(
        retry = retry(2, 10),
        callId = (input, _, round) => s"$input.$round",
        onFailure = (call, _) => Seq(call.callId).asJava
      )
    )
    h.process("a")
    for (round <- 0 to 1) {
      assert(h.future("a").callId == s"a.$round")
      h.issue(s"t$round", "a")
      h.advanceTo(h.time.currentProcessingTime + PollMs)
      h.polls.last.futures.head.completeExceptionally(new Over)
      h.runMail()
      h.advanceTo(h.time.currentProcessingTime + 10)
    }
    assert(h.emitted == Seq("a=>a.1") && journal.flushed("a").round == 2)
  }

  test("a row whose tickets all end with a failure is submitted as often as it may be tried") {
    val journal = new Tickets("a" -> CallTicket(null, 0, 0, 7))
    val h = harness(journal)(_.copy(retry = retry(3, 10)))
    h.process("a")
    for (submission <- 1 to 3) {
      assert(h.calls.size == submission && h.emitted.isEmpty)
      h.issue(s"t$submission", "a")
      h.advanceTo(h.time.currentProcessingTime + PollMs)
      h.notYet(h.polls.last)
      h.advanceTo(h.time.currentProcessingTime + PollMs)
      h.polls.last.futures.head.completeExceptionally(new Over)
      h.runMail()
      h.advanceTo(h.time.currentProcessingTime + 10)
    }
    assert(h.calls.size == 3 && h.emitted.size == 1 && h.operator.isDrained)
    assert(journal.flushed("a").round == 10)
  }

  test("with leave a known ticket is collected once, and a row without an answer is pending again") {
    val journal = new Tickets("a" -> CallTicket("t", 0, 2), "b" -> CallTicket("t", 1, 2))
    val h = harness(journal, waits = false)(options => inPairs(options).copy(retry = retry(5, 10)))
    h.process("a", "b")
    assert(h.polls.size == 1)
    h.notYet(h.polls.head)
    assert(h.emitted.toSet == Set("a", "b").map(_ + "=>failed PendingException after 0 in 0"))
    val later = harness(journal, waits = false)(inPairs)
    later.process("a", "b")
    later.collected(later.polls.head)
    assert(later.emitted.toSet == Set("a=>t.0", "b=>t.1") && later.calls.isEmpty)
  }

  test("the total time runs while a ticket is out, an attempt's only while a call does") {
    val journal = new Tickets
    val h = harness(journal)(
      _.copy(totalTimeoutMs = 3 * PollMs + 1, attemptTimeoutMs = 100L, retry = retry(2, 10))
    )
    h.process("a")
    h.issue("t", "a")
    h.advanceTo(PollMs)
    h.notYet(h.polls.head)
    h.advanceTo(2 * PollMs)
    h.advanceTo(2 * PollMs + 100)
    h.advanceTo(2 * PollMs + 110)
    assert(h.polls.size == 3, "the second poll took too long")
    h.notYet(h.polls.last)
    h.advanceTo(3 * PollMs + 1)
    assert(h.emitted == Seq(s"a=>failed AsyncTimeoutException after 2 in ${3 * PollMs + 1}"))
    assert(h.operator.isDrained && h.time.scheduledTimers == 0 && journal.flushed("a").text == "t")
  }

  test("rows that share a call share its ticket, and the last that gives up ends its polls") {
    val h = harness(new Tickets)(_.copy(shareCalls = true, totalTimeoutMs = 3 * PollMs))
    h.process("a:1", "a:2")
    h.issue("t", "a:1")
    h.advanceTo(PollMs)
    h.collected(h.polls.head)
    assert(h.emitted.toSet == Set("a:1=>t.0", "a:2=>t.0") && h.polls.size == 1)
    h.process("b:1", "b:2")
    h.issue("u", "b:1")
    h.advanceTo(5 * PollMs)
    assert(h.emitted.size == 4 && h.time.scheduledTimers == 0 && h.operator.isDrained)
  }

  test("rows of one ticket that give up one by one are not polled for any more") {
    val h = harness(new Tickets)(options => inPairs(options).copy(totalTimeoutMs = PollMs + 5))
    h.process("a", "b")
    h.future("a")
    h.issue("t", "a", "b")
    h.advanceTo(PollMs)
    h.notYet(h.polls.head)
    h.advanceTo(10 * PollMs)
    assert(h.emitted.size == 2 && h.polls.size == 1 && h.time.scheduledTimers == 0)
  }

  test("limits charge what is submitted, and polls as calls alone") {
    val charged = mutable.Buffer.empty[Seq[String]]
    val limiter = Limiter.all(TestLimit.ofCalls(1), TestLimit.ofCalls(2))
    val h = harness(new Tickets)(options =>
      inPairs(options).copy(
        limiter = limiter,
        charges = Some { inputs =>
          charged += inputs.toArray(Array.empty[String]).toSeq
          Array(0.0, 0.0)
        }
      )
    )
    h.process("a", "b")
    h.issue("t", "a", "b")
    h.advanceTo(PollMs)
    h.collected(h.polls.head)
    assert(charged == Seq(Seq("a", "b"), Nil) && h.emitted.size == 2)
  }

  test("a budget holds what is out as one call in flight, and counts what it reports in both halves") {
    val clock = new SimulatedClock
    val ledger = new BudgetAllocator(BudgetTerms(Seq("calls" -> 3.0, "tokens" -> 1000.0)))
    val waiting = mutable.Queue.empty[() => Unit]
    val part = TestLending.part(BudgetTerms(Seq("calls" -> 3.0, "tokens" -> 1000.0)), clock) {
      (report, answer) =>
        waiting += (() => Option(ledger.report("", "p", report, clock.nanoTime)).foreach(answer(_)))
    }
    val h = harness(new Tickets("d" -> CallTicket("known", 0, 1)))(
      _.copy(budget = Some(part), units = UsageUnits(Seq("tokens")))
    )
    def tick(): Unit = (1 to 4).foreach { _ =>
      clock.run(clock.nowMs + 250)
      while (waiting.nonEmpty) {
        waiting.dequeue()()
        h.runMail()
      }
    }
    h.process("a", "b", "c", "d", "e")
    tick()
    assert(h.polls.map(_.ticket) == Seq("known") && h.calls.map(_.input) == Seq("a", "b", "c"))
    h.future("a").reportUsage("tokens", 5.0)
    Seq("a", "b", "c").foreach(input => h.issue(s"of $input", input))
    tick()
    assert(ledger.spent.amounts == Seq(0.0, 0.0), "all three are in flight")
    h.advanceTo(PollMs)
    val byTicket = h.polls.map(poll => poll.ticket -> poll).toMap
    byTicket("of a").futures.head.reportUsage("tokens", 100.0)
    byTicket("known").futures.head.reportUsage("tokens", 30.0)
    Seq("of a", "of b", "known").foreach(ticket => h.collected(byTicket(ticket)))
    h.notYet(byTicket("of c"))
    tick()
    assert(ledger.spent.amounts == Seq(2.0, 135.0))
    h.operator.close()
    tick()
    assert(ledger.spent.amounts.head == 3.0, "one that was given up may have used something")
  }

  test("with leave a budget is charged with what was reported: the rest when the answer is collected") {
    val clock = new SimulatedClock
    val terms = BudgetTerms(Seq("tokens" -> 1000.0))
    val ledger = new BudgetAllocator(terms)
    val waiting = mutable.Queue.empty[() => Unit]
    val part = TestLending.part(terms, clock) { (report, answer) =>
      waiting += (() => Option(ledger.report("", "p", report, clock.nanoTime)).foreach(answer(_)))
    }
    val journal = new Tickets
    def run() = harness(journal, waits = false)(
      _.copy(budget = Some(part), units = UsageUnits(Seq("tokens")))
    )
    def tick(h: AsyncHarness): Unit = (1 to 4).foreach { _ =>
      clock.run(clock.nowMs + 250)
      while (waiting.nonEmpty) waiting.dequeue()()
      h.runMail()
    }
    val first = run()
    first.process("a")
    tick(first)
    first.future("a").reportUsage("tokens", 100.0)
    first.answer("a")
    first.process("b")
    tick(first)
    first.future("b").reportUsage("tokens", 50.0)
    first.issue("t", "b")
    tick(first)
    assert(first.emitted.last.startsWith("b=>failed PendingException"))
    val later = run()
    later.process("b")
    later.polls.head.futures.head.reportUsage("tokens", 70.0)
    later.collected(later.polls.head)
    tick(later)
    assert(ledger.spent.amounts == Seq(220.0))
  }

  test("a row that an earlier run has submitted is late without an attempt of this one") {
    val h = harness(new Tickets("a" -> CallTicket("t", 0, 1)))(
      _.copy(totalTimeoutMs = 2 * PollMs - 1, onFailure = (_, cause) => Seq(cause.getMessage).asJava)
    )
    h.process("a")
    h.operator.endInputReached()
    h.notYet(h.polls.head)
    h.advanceTo(2 * PollMs)
    assert(h.emitted.head.contains("120000 ms since this run first asked for its answer. Raise"))
    assert(!h.emitted.head.contains("attempt"))
  }

  test("a ticket that comes with a failure that ends the task is kept") {
    val journal = new Tickets
    val h = harness(journal)(_.copy(onFailure = (_, cause) => throw cause))
    h.process("a", "b")
    h.future("a").completeExceptionally(new RuntimeException("no luck"))
    assert(intercept[RuntimeException](h.issue("t", "b")).getMessage == "no luck")
    assert(journal.flushed.isEmpty)
    h.operator.close()
    assert(journal.flushed == Map("b" -> CallTicket("t", 0, 1)))
  }

  test("close cancels what is out, and no timer stays") {
    val h = harness(new Tickets)()
    h.process("a", "b")
    h.issue("t", "a")
    h.advanceTo(PollMs)
    h.operator.close()
    assert(h.time.scheduledTimers == 0 && h.cancelled.toSet == Set("a#1", "b#1"))
  }
}

private object TicketsSuite {
  private final val PollMs = 60000L

  private def keyOf(input: String): CallKey = CallKey(0L, input.takeWhile(_ != ':').hashCode.toLong)

  /** The service says that it will not answer. */
  private class Over extends RuntimeException("over")

  /** A journal that outlives operators; what was not flushed does not. */
  private final class Tickets(known: (String, CallTicket)*) extends TicketJournal {
    private val kept = known.map { case (input, ticket) => keyOf(input) -> ticket }.to(mutable.Map)
    val unwritten = mutable.Buffer.empty[(CallKey, CallTicket)]
    var flushes = 0

    def flushed: Map[String, CallTicket] =
      ('a' to 'z').map(_.toString).flatMap(input => kept.get(keyOf(input)).map(input -> _)).toMap

    override def find(key: CallKey): CallTicket =
      unwritten.reverseIterator.find(_._1 == key).map(_._2).orElse(kept.get(key)).orNull
    override def keep(key: CallKey, ticket: CallTicket): Unit = unwritten += key -> ticket
    override def flush(): Unit = {
      kept ++= unwritten
      if (unwritten.nonEmpty) flushes += 1
      unwritten.clear()
    }
  }
}
