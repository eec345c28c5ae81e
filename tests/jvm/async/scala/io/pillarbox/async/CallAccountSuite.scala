package io.pillarbox.async

import java.util

import scala.jdk.CollectionConverters._

import io.pillarbox.api.RetryAfter
import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.journal.{CallCost, CallJournal, CallKey}
import io.pillarbox.metered.limit._
import io.pillarbox.metered.usage.{CallAccount, UsageUnits}
import org.scalatest.funsuite.AnyFunSuite

/** What rows are told of their calls. An account is written as "id attempts ms", with a J for the journal. */
class CallAccountSuite extends AnyFunSuite {
  private type Options = AsyncOptions[String, String]

  private def harness(change: Options => Options = identity) =
    new AsyncHarness(change(options().copy(onFailure = FailureAsRow, accounted = Some(told))))

  private def told(account: CallAccount, rows: util.Collection[String]): util.Collection[String] = {
    import account._
    val used = if (usage == null) "" else s" ${usage(0)} tokens"
    val text = s"$callId $attempts $elapsedMs${if (isFromJournal) " J" else ""}$used"
    rows.asScala.map(row => s"$row [$text]").asJavaCollection
  }

  private def keyed(options: Options): Options =
    options.copy(callKey = Some(input => CallKey(0L, input.takeWhile(_ != ':').hashCode.toLong)))

  private def sharing(change: Options => Options = identity) =
    harness(options => change(keyed(options).copy(shareCalls = true)))

  test("an answer and a failure have the call's account") {
    val h = harness()
    h.process("a", "b", "c")
    h.advanceTo(7)
    h.answer("a")
    h.future("b").complete(util.List.of("x", "y"))
    h.fail("c")
    assert(h.emitted.take(2) == Seq("a=>a1 [0 1 7]", "b=>x [1 1 7],y [1 1 7]"))
    assert(h.emitted(2).startsWith("c=>") && h.emitted(2).endsWith(" [2 1 7]"))
  }

  test("attempts of retries count, from the first one on") {
    val h = harness(_.copy(retry = AsyncHarness.retry(3, 10).ifException(_ => true)))
    h.process("a")
    h.fail("a")
    h.advanceTo(10)
    h.answer("a")
    assert(h.emitted == Seq("a=>a1 [0 2 10]"))
  }

  test("of those that share a call the first has it, and the others none") {
    val h = sharing()
    h.process("a:1", "a:2", "b", "a:3")
    h.advanceTo(5)
    h.answer("a:1", "b")
    assert(
      h.emitted == Seq("a:1=>a:11 [0 1 5]", "a:2=>a:11 [0 0 5]", "b=>b1 [2 1 5]", "a:3=>a:11 [0 0 5]")
    )
    assert(h.metrics.calls == 2 && h.metrics.shared == 2)
  }

  test("what all attempts of a call have used is with those") {
    val tokens = UsageUnits(Seq("tokens"))
    val h = sharing(_.copy(units = tokens, retry = AsyncHarness.retry(3, 10).ifException(_ => true)))
    h.process("a:1", "a:2")
    h.future("a:1").reportUsage("tokens", 30)
    h.fail("a:1")
    h.advanceTo(10)
    h.future("a:1").reportUsage("tokens", 12.5)
    h.answer("a:1")
    assert(h.emitted == Seq("a:1=>a:11 [0 2 10 42.5 tokens]", "a:2=>a:11 [0 0 10]"))
  }

  test("one whose time is over leaves the call to those that wait for it, but for the last") {
    val h = sharing(_.copy(totalTimeoutMs = 50, ordered = false))
    h.process("a:1")
    h.advanceTo(20)
    h.process("a:2")
    h.advanceTo(50)
    assert(h.emitted.size == 1 && h.emitted.head.endsWith(" [0 0 50]"))
    h.advanceTo(70)
    assert(h.emitted.size == 2 && h.emitted(1).endsWith(" [0 1 50]"))
  }

  test("one whose time is over while the shared call is tried again is told of all attempts") {
    val h = sharing(
      _.copy(totalTimeoutMs = 50, retry = AsyncHarness.retry(9, 10).ifException(_ => true))
    )
    h.process("a:1")
    for (ms <- Seq(10L, 20L)) {
      h.fail("a:1")
      h.advanceTo(ms)
    }
    h.advanceTo(50)
    assert(h.emitted == Seq("a:1=>failed AsyncTimeoutException after 3 in 50 [0 3 50]"))
  }

  test("an answer of the journal needs no attempt") {
    val known = new CallJournal[String] {
      override def find(key: CallKey): util.Collection[String] = util.List.of("x", "y")
      override def willCall(): Unit = ()
      override def keep(key: CallKey, cost: CallCost, attempt: Int, rows: util.Collection[String]): Unit = ()
      override def flush(): Unit = ()
    }
    val h = harness(keyed(_).copy(journal = Some(known)))
    h.process("a")
    h.runMail()
    assert(h.emitted == Seq("a=>x [0 0 0 J],y [0 0 0 J]"))
  }

  test("a journal is told of attempts that ended in a pause of the limits, too") {
    val kept = scala.collection.mutable.Buffer.empty[(Int, Int)]
    val journal = new CallJournal[String] {
      override def find(key: CallKey): util.Collection[String] = null
      override def willCall(): Unit = ()
      override def keep(key: CallKey, cost: CallCost, attempt: Int, rows: util.Collection[String]): Unit =
        kept += cost.attempts -> attempt
      override def flush(): Unit = ()
    }
    final class Pause extends RuntimeException with RetryAfter {
      override def retryAfterMs: Long = 1000
      override def all: Boolean = true
    }
    val clock = new SimulatedClock
    val h = harness(keyed(_).copy(journal = Some(journal), limiter = TestLimit.ofCalls(1, clock)))
    h.process("a")
    h.fail("a", new Pause)
    h.advanceTo(1000)
    clock.run(1000)
    h.runMail()
    h.answer("a")
    assert(kept == Seq(2 -> 1) && h.emitted == Seq("a=>a1 [0 2 1000]"))
    assert(h.metrics.calls == 2 && h.metrics.retries == 1)
  }

  test("attempts that the service refused are counted, and no others") {
    final class Later extends RuntimeException with RetryAfter { override def retryAfterMs: Long = 1 }
    val h = harness(_.copy(retry = AsyncHarness.retry(3, 1).ifException(_ => true)))
    h.process("a")
    h.fail("a", new Later)
    h.advanceTo(1)
    h.fail("a")
    h.advanceTo(2)
    h.fail("a", new Later)
    assert(h.metrics.rateLimited == 2 && h.metrics.calls == 3 && h.metrics.retries == 2)
  }

  test("the time is counted for which a call waits for the limiter") {
    val h = harness(_.copy(limiter = TestLimit.ofCalls(1)))
    h.process("a")
    h.runMail()
    assert(h.metrics.limitWaitNanos == 0)
    h.process("b", "c")
    h.answer("a")
    val first = h.metrics.limitWaitNanos
    assert(first > 0)
    h.answer("b")
    val second = h.metrics.limitWaitNanos
    assert(second > first)
    h.answer("c")
    assert(h.metrics.limitWaitNanos == second)
  }
}
