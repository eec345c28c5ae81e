package io.pillarbox.async

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.async.AsyncHarness._
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
    assert(h.calls.map(_.input) == Seq("a1", "b1", "a2", "a3"), "a call that failed gives its turn away, too")
  }

  test("no watermark passes an element, nor an element of its key a watermark") {
    val h = new AsyncHarness(keyed(callsPerKey = 0))
    h.process("a1")
    assert(h.operator.tryProcessWatermark(1))
    h.process("a2", "b1")
    h.answer("a2")
    h.answer("b1")
    assert(h.emitted.isEmpty)
    h.answer("a1")
    assert(h.emitted.take(2) == Seq("a1=>a11", "~1") && h.emitted.size == 4)
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

  test("random programs keep each key's order and limit, and answer every element once") {
    for (seed <- 0 until 300) {
      val random = new Random(seed)
      val (limit, ordered, capacity) = (random.nextInt(3), random.nextBoolean(), 1 + random.nextInt(8))
      val retries = retry(1 + random.nextInt(2), 3)
      val chosen = keyed(limit, ordered, capacity).copy(retry = retries, onFailure = FailureAsRow)
      val h = new AsyncHarness(chosen)
      val put = mutable.Buffer.empty[String]
      def open = h.calls.filterNot(_.future.isDone)
      def check(): Unit = {
        if (limit > 0) assert(open.groupBy(_.input.take(1)).values.forall(_.size <= limit))
        assert(open.size <= capacity)
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
      val left = h.emitted.map(_.takeWhile(_ != '=')).toSeq
      assert(left.sorted == put.sorted.toSeq)
      // One call a key at a time ends in order, but for those that are ordered anyway.
      if (ordered || limit == 1)
        assert(left.groupBy(_.take(1)) == put.toSeq.groupBy(_.take(1)), s"seed $seed")
    }
  }
}
