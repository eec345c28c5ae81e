package io.pillarbox.async

import java.util

import scala.collection.mutable

import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.journal.{CallCost, CallJournal, CallKey}
import io.pillarbox.metered.limit._
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/** Calls with a key: answered from a journal, and shared. The key of "a:1" is "a". */
class KeyedCallsSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  override implicit val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 300)

  private def keyOf(input: String): CallKey = CallKey(0L, input.takeWhile(_ != ':').hashCode.toLong)

  private final class Journal(known: (String, Seq[String])*) extends CallJournal[String] {
    val rows: mutable.Map[CallKey, Seq[String]] = known.map { case (k, v) => keyOf(k) -> v }.to(mutable.Map)
    val unwritten = mutable.Buffer.empty[(CallKey, Seq[String])]
    var flushes = 0
    var willCalls = 0

    override def find(key: CallKey): util.Collection[String] =
      unwritten.toMap.get(key).orElse(rows.get(key)).map(found => util.List.of(found: _*)).orNull
    override def willCall(): Unit = willCalls += 1
    override def keep(key: CallKey, cost: CallCost, attempt: Int, found: util.Collection[String]): Unit =
      unwritten += key -> found.toArray(Array.empty[String]).toSeq
    override def flush(): Unit = {
      rows ++= unwritten
      if (unwritten.nonEmpty) flushes += 1
      unwritten.clear()
    }
  }

  private type Options = AsyncOptions[String, String]

  private def journaled(journal: Journal, change: Options => Options = identity) = new AsyncHarness(
    change(options().copy(callKey = Some(keyOf), journal = Some(journal), onFailure = FailureAsRow))
  )

  private def sharing(change: Options => Options = identity) =
    new AsyncHarness(
      change(options().copy(callKey = Some(keyOf), shareCalls = true, onFailure = FailureAsRow))
    )

  test("a call that comes to the front of its key while a limit looks for its next one is not lost") {
    // All are of one value of the limit; the key of a call is its account, and the journal's is what is asked.
    val shared = TestLimit.ofCalls(1)
    val h = journaled(
      new Journal,
      _.copy(
        capacity = 100,
        callKey = Some(keyOf),
        keyed = Some(Keyed(_.drop(2).take(1), callsPerKey = 1)),
        valueLimiters = Some(new ValueLimiters[String] {
          override def valueOf(input: String): AnyRef = "tenant"
          override def open(value: AnyRef): ValueLimiter = new ValueLimiter {
            override val limiter: Limiter = Limiter.ofUnits(Seq(shared -> Limiter.Calls), _ => true)
            override def close(): Unit = ()
          }
        })
      )
    )
    h.process("q:1", "r:2", "u:4", "q:3", "s:3")
    Seq("q:1", "r:2", "u:4", "s:3").foreach { input =>
      h.runMail()
      h.future(input).completeOne(s"$input!")
    }
    h.runMail()
    assert(h.emitted.size == 5 && h.calls.map(_.input).toSet == Set("q:1", "r:2", "u:4", "s:3"))
    assert(shared.inUse == 0)
  }

  test("answers that come with a failure that ends the task, and until its end, are kept") {
    val journal = new Journal
    val h = journaled(journal, _.copy(onFailure = (_, cause) => throw cause))
    h.process("a", "b", "c")
    h.future("a").completeExceptionally(new RuntimeException("no luck"))
    h.future("b").completeOne("b1")
    assert(intercept[RuntimeException](h.runMail()).getMessage == "no luck")
    h.future("c").completeOne("c1")
    h.operator.close()
    assert(journal.rows == Map(keyOf("b") -> Seq("b1"), keyOf("c") -> Seq("c1")))
  }

  test("what the journal has is answered without a call, a permit or a slot, in order") {
    val limiter = TestLimit.ofCalls(1)
    val h = journaled(new Journal("a" -> Seq("x", "y"), "c" -> Nil), _.copy(limiter = limiter))
    h.process("a", "b", "c", "a")
    h.runMail()
    assert(h.calls.map(_.input) == Seq("b") && limiter.inUse == 1 && h.metrics.inFlight == 1)
    assert(h.emitted == Seq("a=>x,y"))
    h.answer("b")
    assert(h.emitted == Seq("a=>x,y", "b=>b1", "c=>", "a=>x,y"))
    assert(h.metrics.journalHits == 3 && h.metrics.calls == 1 && h.operator.isDrained)
  }

  test("unordered, an answer from the journal overtakes a call") {
    val h = journaled(new Journal("a" -> Seq("x")), _.copy(ordered = false))
    h.process("b", "a")
    h.runMail()
    assert(h.emitted == Seq("a=>x"))
    h.answer("b")
    assert(h.emitted == Seq("a=>x", "b=>b1"))
  }

  test("an answer is in the journal before its rows leave, those of one turn together") {
    val journal = new Journal
    val h = journaled(journal)
    h.process("a", "b", "c")
    Seq("a", "b", "c").foreach(input => h.future(input).completeOne("x"))
    h.runMail()
    assert(journal.flushes == 1 && journal.rows.size == 3 && journal.willCalls == 3)
    h.process("a")
    h.runMail()
    assert(h.attempts("a") == 1 && h.emitted.last == "a=>x")
  }

  test("a journal that can't be written fails the task before the call, or before the row leaves") {
    val journal = new Journal
    val h = journaled(journal)
    h.process("a")
    val failing = new CallJournal[String] {
      override def find(key: CallKey): util.Collection[String] = null
      override def willCall(): Unit = throw new java.io.IOException("read-only")
      override def keep(key: CallKey, cost: CallCost, attempt: Int, rows: util.Collection[String]): Unit = ()
      override def flush(): Unit = ()
    }
    val readOnly = new AsyncHarness(options().copy(callKey = Some(keyOf), journal = Some(failing)))
    assert(intercept[java.io.IOException](readOnly.process("a")).getMessage == "read-only")
    assert(readOnly.calls.isEmpty)
    val full = new CallJournal[String] {
      override def find(key: CallKey): util.Collection[String] = null
      override def willCall(): Unit = ()
      override def keep(key: CallKey, cost: CallCost, attempt: Int, rows: util.Collection[String]): Unit = ()
      override def flush(): Unit = throw new java.io.IOException("full")
    }
    val noRoom = new AsyncHarness(options().copy(callKey = Some(keyOf), journal = Some(full)))
    noRoom.process("a")
    assert(intercept[java.io.IOException](noRoom.answer("a")).getMessage == "full")
    assert(noRoom.emitted.isEmpty)
  }

  test("errors, timeouts and what the function puts in place of an answer are not kept") {
    val journal = new Journal
    val h = journaled(journal, _.copy(totalTimeoutMs = 50))
    h.process("a")
    h.fail("a")
    h.process("b")
    h.advanceTo(50)
    h.onTimeout = Some((_, future) => future.completeOne("instead"))
    h.process("c")
    h.advanceTo(100)
    assert(h.emitted.last == "c=>instead" && h.emitted.size == 3 && journal.rows.isEmpty)
    h.process("a", "b", "c")
    h.answer("a", "b", "c")
    assert(journal.rows.size == 3)
  }

  test("an answer after a retry is kept; batches and look-ahead are answered from the journal too") {
    val journal = new Journal("k" -> Seq("known"))
    val h = journaled(journal, _.copy(retry = retry(2, 10)))
    h.process("a")
    h.fail("a")
    h.advanceTo(10)
    h.answer("a")
    assert(journal.rows.contains(keyOf("a")))
    val grouped = journaled(journal, _.copy(batching = Some(Batching(2, 10))))
    grouped.process("b", "k", "c")
    assert(grouped.groups == Seq(Seq("b", "c")))
    val ahead = journaled(journal, _.copy(ordered = false, capacity = 1, lookAhead = 2))
    ahead.process("d", "e", "k")
    ahead.runMail()
    assert(ahead.calls.map(_.input) == Seq("d", "e") && ahead.emitted == Seq("k=>known"))
  }

  test("of many that wait for their key, all leave with the answer of the first") {
    val keyed = Some(Keyed[String](input => keyOf(input), 1))
    val h = journaled(new Journal, _.copy(capacity = 50000, keyed = keyed))
    h.process((1 to 50000).map(n => s"a:$n"): _*)
    assert(h.calls.size == 1)
    h.answer("a:1")
    assert(h.emitted.size == 50000 && h.calls.size == 1 && h.metrics.journalHits == 49999)
  }

  test("inputs with one key share a call, its rows and its retries") {
    val h = sharing(_.copy(retry = retry(2, 10)))
    h.process("a:1", "a:2", "b:1")
    h.fail("a:1")
    h.process("a:3")
    h.advanceTo(10)
    assert(h.calls.map(_.input) == Seq("a:1", "b:1", "a:1") && h.calls.last.attempt == 2)
    assert(h.calls.map(_.future.callId) == Seq("0", "2", "0"), "the id of the first that shares it")
    h.answer("a:1")
    assert(h.emitted == Seq("a:1=>a:11", "a:2=>a:11"))
    h.answer("b:1")
    assert(h.emitted.drop(2) == Seq("b:1=>b:11", "a:3=>a:11"))
    h.process("a:4")
    assert(h.calls.last.input == "a:4" && h.metrics.calls == 4)
  }

  test("inputs with one key share its failure, each as a row of its own") {
    val h = sharing()
    h.process("a:1", "a:2")
    h.fail("a:1")
    assert(
      h.emitted == Seq(
        "a:1=>failed RuntimeException after 1 in 0",
        "a:2=>failed RuntimeException after 1 in 0"
      )
    )
    assert(h.metrics.errors == 2 && h.metrics.inFlight == 0 && h.gaveUp == Seq(0L))
  }

  test("under a policy that fails the task, all that share the call are decided") {
    val h = sharing(_.copy(onFailure = (_, cause) => throw cause))
    h.process("a:1", "a:2")
    intercept[RuntimeException](h.fail("a:1"))
    h.runMail()
    assert(h.operator.isDrained && h.metrics.inFlight == 0)
  }

  test("a failure has the id of the call that was made, and not one of each that shares it") {
    val ids = mutable.Buffer.empty[String]
    val h = sharing(
      _.copy(
        callId = (_, elementId, _) => s"place $elementId",
        onFailure = (call, _) => { ids += call.callId; util.List.of("failed") }
      )
    )
    h.process("a:1", "a:2", "b:1")
    h.fail("a:1")
    h.fail("b:1")
    assert(ids == Seq("place 0", "place 0", "place 2"))
  }

  test("each counts in the capacity") {
    val h = sharing(_.copy(capacity = 2))
    assert(h.operator.tryProcessElement("a:1", 0) && h.operator.tryProcessElement("a:2", 0))
    assert(!h.operator.tryProcessElement("a:3", 0))
    h.answer("a:1")
    assert(h.operator.tryProcessElement("a:3", 0))
  }

  test(
    "each keeps its own total deadline; the call goes on for the others, and is cancelled after the last"
  ) {
    val h = sharing(_.copy(totalTimeoutMs = 100))
    h.process("a:1")
    h.advanceTo(60)
    h.process("a:2", "b:1")
    h.advanceTo(100)
    assert(h.emitted == Seq("a:1=>failed AsyncTimeoutException after 1 in 100") && h.cancelled.isEmpty)
    h.advanceTo(130)
    h.process("a:3")
    h.advanceTo(160)
    assert(h.emitted.drop(1).head == "a:2=>failed AsyncTimeoutException after 1 in 100")
    assert(h.cancelled == Seq("b:1#1") && h.metrics.inFlight == 1)
    h.advanceTo(230)
    assert(h.cancelled == Seq("b:1#1", "a:1#1") && h.metrics.inFlight == 0 && h.operator.isDrained)
    h.process("a:4")
    h.answer("a:4")
    assert(h.emitted.last == "a:4=>a:41")
  }

  test("the clock of an input that waits for a permit starts with the call") {
    val limiter = TestLimit.ofCalls(1)
    val h = sharing(_.copy(totalTimeoutMs = 100, limiter = limiter))
    h.process("x:1", "a:1", "a:2")
    h.advanceTo(90)
    h.answer("x:1")
    assert(h.calls.map(_.input) == Seq("x:1", "a:1"))
    h.advanceTo(189)
    assert(h.emitted.size == 1)
    h.advanceTo(190)
    assert(h.emitted.size == 3 && limiter.inUse == 0 && h.time.scheduledTimers == 0)
  }

  test("a call that nobody waits for any more leaves its line, its backoff and its group") {
    val h = sharing(_.copy(totalTimeoutMs = 50, retry = retry(5, 200)))
    h.process("a:1", "a:2")
    h.fail("a:1")
    h.advanceTo(50)
    assert(h.emitted.size == 2 && h.metrics.inFlight == 0 && h.operator.isDrained)
    h.advanceTo(1000)
    assert(h.calls.size == 1)
  }

  test("with look-ahead, slots stay in step") {
    val h = sharing(_.copy(ordered = false, capacity = 1, lookAhead = 2, totalTimeoutMs = 100))
    h.process("a:1", "b:1", "b:2")
    assert(h.calls.map(_.input) == Seq("a:1", "b:1") && h.metrics.inFlight == 1)
    h.answer("a:1")
    assert(h.metrics.inFlight == 1)
    h.answer("b:1")
    assert(h.emitted == Seq("a:1=>a:11", "b:1=>b:11", "b:2=>b:11") && h.metrics.inFlight == 0)
  }

  test("an answer of the function in place of a call's decides its own input only") {
    val h = sharing(_.copy(totalTimeoutMs = 50))
    h.onTimeout = Some((input, future) => if (input == "a:1") future.completeOne("instead"))
    h.process("a:1")
    h.advanceTo(10)
    h.process("a:2")
    h.advanceTo(50)
    assert(h.emitted == Seq("a:1=>instead"))
    h.advanceTo(60)
    assert(h.emitted.size == 1, "the timeout of a:2 leaves it open")
    h.answer("a:1")
    assert(h.emitted == Seq("a:1=>instead", "a:2=>a:11") && h.operator.isDrained)
  }

  test("inputs that wait are in the snapshot, and close cancels the call once") {
    val h = sharing()
    h.process("a:1", "a:2")
    assert(h.snapshot.size == 2)
    h.operator.close()
    assert(h.cancelled == Seq("a:1#1") && h.metrics.inFlight == 0)
  }

  private sealed trait Op
  private case class Put(key: Int) extends Op
  private case class End(pick: Int, fails: Boolean) extends Op
  private case class Pass(ms: Long) extends Op

  private val op: Gen[Op] = Gen.frequency(
    6 -> Gen.choose(0, 3).map(Put(_)),
    3 -> Gen.zip(Gen.choose(0, 100), Gen.oneOf(true, false)).map((End.apply _).tupled),
    2 -> Gen.choose(1L, 40L).map(Pass(_))
  )

  test("whatever happens: one call of a key at a time, every input leaves once, none with another's answer") {
    val settings = for {
      ordered <- Gen.oneOf(true, false)
      batch <- Gen.option(Gen.choose(1, 3))
      permits <- Gen.option(Gen.choose(1, 2))
      ahead <- Gen.oneOf(0, 3)
      withJournal <- Gen.oneOf(true, false)
    } yield (ordered, batch, permits, ahead, withJournal)
    forAll(settings, Gen.listOfN(80, op)) { case ((ordered, batch, permits, ahead, withJournal), ops) =>
      val limiter = permits.map(TestLimit.ofCalls(_))
      val journal = new Journal
      val h = sharing(
        _.copy(
          ordered = ordered,
          capacity = 5,
          totalTimeoutMs = 60,
          attemptTimeoutMs = 40,
          retry = retry(2, 7),
          batching = batch.map(Batching(_, 5)),
          limiter = limiter.getOrElse(gate0),
          lookAhead = if (limiter.isEmpty && batch.isEmpty && !ordered) ahead else 0,
          journal = Option.when(withJournal)(journal)
        )
      )
      h.onInvoke = call => {
        val others = h.calls.dropRight(1).filter(other => keyOf(other.input) == keyOf(call.input))
        assert(others.forall(_.future.isDone), call)
      }
      val put = mutable.Buffer.empty[String]
      ops.foreach {
        case Put(key) =>
          val input = s"$key:${put.size}"
          if (h.operator.tryProcessElement(input, 0)) put += input
        case End(pick, fails) =>
          val running = h.calls.filterNot(_.future.isDone)
          if (running.nonEmpty) {
            val call = running(pick % running.size)
            if (fails) call.future.completeExceptionally(new ArithmeticException)
            else call.future.completeOne(call.input.takeWhile(_ != ':'))
          }
          h.runMail()
        case Pass(ms) => h.advanceTo(h.time.currentProcessingTime + ms)
      }
      h.operator.endInputReached()
      (1 to 400).foreach(_ => h.advanceTo(h.time.currentProcessingTime + 10))
      assert(h.operator.isDrained && h.metrics.inFlight == 0 && h.time.scheduledTimers == 0)
      assert(limiter.forall(_.inUse == 0))
      val left = h.emitted.map(_.takeWhile(_ != '=')).toSeq
      assert(if (ordered) left == put.toSeq else left.sorted == put.toSeq.sorted)
      h.emitted.foreach { row =>
        val answer = row.drop(row.indexOf("=>") + 2)
        assert(answer.startsWith("failed") || answer == row.takeWhile(_ != ':'), row)
      }
      journal.rows.foreach { case (key, rows) => assert(rows.forall(row => keyOf(row) == key)) }
    }
  }

  private val gate0 = io.pillarbox.metered.limit.Limiter.Unlimited

  test("a journal and sharing are refused without a key") {
    intercept[IllegalArgumentException](options().copy(shareCalls = true))
    intercept[IllegalArgumentException](options().copy(journal = Some(new Journal)))
  }
}
