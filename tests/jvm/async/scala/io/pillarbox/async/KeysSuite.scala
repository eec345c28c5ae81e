package io.pillarbox.async

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.journal.CallKey
import io.pillarbox.metered.limit._
import org.scalatest.funsuite.AnyFunSuite

/** Elements with keys: here the first letter. */
class KeysSuite extends AnyFunSuite {

  private def keyed(callsPerKey: Int, ordered: Boolean = true, capacity: Int = 10) =
    options(ordered, capacity).copy(keyed = Some(Keyed[String](_.take(1), callsPerKey)))

  test("an order is one within a key, and free between keys") {
    val h = new AsyncHarness(keyed(callsPerKey = 0))
    h.process("a1", "b1", "a2", "b2")
    h.answer("a2")
    h.answer("b1")
    assert(h.emitted == Seq("b1=>b11"))
    h.answer("a1")
    h.answer("b2")
    assert(h.emitted == Seq("b1=>b11", "a1=>a11", "a2=>a21", "b2=>b21"))
  }

  test("so many calls of a key are under way, the next begins when one is done") {
    val h = new AsyncHarness(keyed(callsPerKey = 1).copy(onFailure = FailureAsRow))
    h.process("a1", "a2", "b1", "a3")
    assert(h.calls.map(_.input) == Seq("a1", "b1"))
    h.answer("a1")
    assert(h.calls.map(_.input) == Seq("a1", "b1", "a2"))
    h.fail("a2")
    assert(h.calls.map(_.input) == Seq("a1", "b1", "a2", "a3"), "a call that failed gives its key back, too")
  }

  test("the policy hears of a failure before the next call of the key begins") {
    val told = mutable.Buffer.empty[String]
    lazy val h: AsyncHarness = new AsyncHarness(keyed(callsPerKey = 1).copy(onFailure = { (call, _) =>
      told += s"${call.input} failed after ${h.calls.map(_.input).mkString(" ")}"
      java.util.Collections.emptyList[String]
    }))
    h.process("a1", "a2")
    h.fail("a1")
    assert(told == Seq("a1 failed after a1") && h.calls.map(_.input) == Seq("a1", "a2"))
  }

  test("the room of those that wait for their key may be another one") {
    val all = Keyed[String](_.take(1), callsPerKey = 1, mostWaiting = Some(Int.MaxValue / 2))
    val h = new AsyncHarness(options(ordered = false, capacity = 2).copy(keyed = Some(all)))
    assert((1 to 10000).forall(n => h.operator.tryProcessElement(s"a$n", 0)))
    assert(h.calls.map(_.input) == Seq("a1") && h.metrics.inFlight == 1)
  }

  test("elements that wait for their key are in the snapshot, and closing gives up on them") {
    val h = new AsyncHarness(keyed(callsPerKey = 1))
    h.process("a1", "a2", "a3")
    h.answer("a1")
    val snapshot = h.operator.snapshotState()
    h.operator.close()
    assert(h.metrics.inFlight == 0)
    val later = new AsyncHarness(keyed(callsPerKey = 1))
    later.operator.restore(snapshot)
    assert(later.calls.map(_.input) == Seq("a2"))
    later.answer("a2")
    later.answer("a3")
    assert(later.emitted == Seq("a2=>a21", "a3=>a31"))
  }

  test("elements that wait for their key stand outside of the capacity, up to a bound") {
    val h = new AsyncHarness(keyed(callsPerKey = 1, ordered = false, capacity = 2))
    val hot = (1 to 50).map(n => s"a$n")
    assert(
      hot.forall(h.operator.tryProcessElement(_, 0)),
      "one of them is called, and there is another slot"
    )
    assert(h.operator.tryProcessElement("b1", 0) && !h.operator.tryProcessElement("b2", 0))
    assert(h.calls.map(_.input) == Seq("a1", "b1") && h.metrics.inFlight == 2)
    h.answer("b1")
    assert(h.operator.tryProcessElement("b2", 0) && h.calls.last.input == "b2")
    h.answer("b2")
    var taken = hot.size
    while (h.operator.tryProcessElement(s"a${taken + 1}", 0)) taken += 1
    assert(taken == 1 + options().copy(keyed = Some(Keyed[String](identity, 1))).roomForKeys)
    h.answer("a1")
    assert(h.calls.last.input == "a2" && h.operator.tryProcessElement("c1", 0))
  }

  test("calls at the front of their keys keep to the capacity") {
    val h = new AsyncHarness(keyed(callsPerKey = 1, capacity = 2))
    h.process("a1", "a2", "b1")
    h.operator.onCapacityAvailable(() => h.operator.tryProcessElement("c1", 0): Unit)
    assert(!h.operator.tryProcessElement("c1", 0))
    h.answer("a1")
    assert(h.calls.map(_.input) == Seq("a1", "b1", "a2"), "a2 has the slot of a1, and c1 none")
    h.answer("b1")
    assert(h.calls.last.input == "c1" && h.metrics.inFlightMax == 2)
  }

  test("a batch does not wait for company that can't come, as calls of a key are let go") {
    val h = new AsyncHarness(keyed(callsPerKey = 1).copy(batching = Some(Batching(5, 1000))))
    h.process("a1", "b1", "a2", "b2", "a3")
    h.operator.endInputReached()
    h.answer("a1", "b1")
    h.answer("a2", "b2")
    assert(h.groups == Seq(Seq("a1", "b1"), Seq("a2", "b2"), Seq("a3")) && h.time.currentProcessingTime == 0)
  }

  private def sharing(capacity: Int) = new AsyncHarness(
    keyed(callsPerKey = 1, capacity = capacity).copy(
      callKey = Some(input => CallKey(0L, input.takeWhile(_ != ':').hashCode.toLong)),
      shareCalls = true
    )
  )

  test("elements with one call share it, instead of waiting for each other as others of their key") {
    val h = sharing(capacity = 10)
    h.process("ax:1", "ay:1", "ax:2", "ay:2")
    assert(h.calls.map(_.input) == Seq("ax:1"))
    h.answer("ax:1")
    assert(h.calls.map(_.input) == Seq("ax:1", "ay:1") && h.metrics.inFlight == 1)
    h.answer("ay:1")
    assert(h.emitted.map(_.takeWhile(_ != '=')) == Seq("ax:1", "ay:1", "ax:2", "ay:2"))
  }

  test("closing begins no call that waits for its key, or for a slot") {
    val h = sharing(capacity = 2)
    h.process("ax:1", "ay:1", "bx:1")
    h.operator.close()
    assert(h.calls.size == 2 && h.cancelled.toSet == Set("ax:1#1", "bx:1#1") && h.metrics.inFlight == 0)
  }

  test("random programs keep each key's order and limit, and answer every element once") {
    for (seed <- 0 until 300) {
      val random = new Random(seed)
      val (limit, ordered, capacity) = (random.nextInt(3), random.nextBoolean(), 1 + random.nextInt(8))
      val retries = retry(1 + random.nextInt(2), 3)
      val permits = Option.when(random.nextBoolean())(TestLimit.ofCalls(1 + random.nextInt(3)))
      val batching = Option.when(random.nextInt(3) == 0)(Batching(1 + random.nextInt(3), 2))
      val chosen = keyed(limit, ordered, capacity).copy(
        retry = retries,
        onFailure = FailureAsRow,
        limiter = permits.getOrElse(Limiter.Unlimited),
        batching = batching
      )
      val h = new AsyncHarness(chosen)
      val put = mutable.Buffer.empty[String]
      def open = h.calls.filterNot(_.future.isDone)
      def check(): Unit = {
        if (limit > 0) assert(open.groupBy(_.input.take(1)).values.forall(_.size <= limit))
        assert(open.size <= capacity)
        permits.foreach(limiter =>
          assert(limiter.inUse <= open.size && (batching.isDefined || limiter.inUse == open.size))
        )
      }
      def answerOne(): Unit = open.lift(random.nextInt(math.max(1, open.size))).foreach { call =>
        if (random.nextInt(4) == 0) call.future.completeExceptionally(new ArithmeticException)
        else call.future.completeOne("x")
        h.runMail()
      }
      for (step <- 0 until 120) {
        random.nextInt(3) match {
          case 0 =>
            val name = s"${('a' + random.nextInt(3)).toChar}$step"
            if (h.operator.tryProcessElement(name, 0)) put += name
          case 1 => answerOne()
          case _ => h.advanceTo(h.time.currentProcessingTime + random.nextInt(4))
        }
        check()
      }
      h.operator.endInputReached()
      while (!h.operator.isDrained) {
        answerOne()
        h.advanceTo(h.time.currentProcessingTime + 1)
        check()
      }
      assert(permits.forall(_.inUse == 0) && h.metrics.inFlight == 0 && h.time.scheduledTimers == 0)
      val left = h.emitted.map(_.takeWhile(_ != '=')).toSeq
      assert(left.sorted == put.sorted.toSeq)
      // One call a key at a time ends in order, but for those that are ordered anyway.
      if (ordered || limit == 1)
        assert(left.groupBy(_.take(1)) == put.toSeq.groupBy(_.take(1)), s"seed $seed")
    }
  }
}
