package io.pillarbox.async

import java.util

import scala.collection.mutable

import io.pillarbox.async.AsyncHarness._
import io.pillarbox.async.queue.StreamElement.{Answered, Record}
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/**
 * Random answers, failures, deadlines, retries and restores, against a plain model of one element.
 */
class AsyncModelSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  override implicit val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 200)

  private val totalMs = 100L
  private val attemptMs = 40L
  private val delayMs = 15L
  private val maxAttempts = 3

  private sealed trait Op
  private case object PutRecord extends Op
  private case class Answer(pick: Int) extends Op
  private case class Fail(pick: Int) extends Op
  private case class Advance(ms: Long) extends Op

  private val op: Gen[Op] = Gen.frequency(
    6 -> Gen.const(PutRecord),
    3 -> Gen.choose(0, 1000).map(Answer(_)),
    3 -> Gen.choose(0, 1000).map(Fail(_)),
    3 -> Gen.choose(0L, 30L).map(Advance(_))
  )

  /**
   * One element: when it started (in line until then), its attempts, and when the present attempt ends or the
   * next begins.
   */
  private final class Expected(val name: String) {
    private var totalDeadline = Long.MaxValue
    private var attemptDeadline = Long.MaxValue
    var attempts = 1
    var retryAt: Option[Long] = None
    var outcome: Option[String] = None
    var hasStarted = false

    def isOpen: Boolean = hasStarted && outcome.isEmpty

    def start(now: Long): Unit = {
      hasStarted = true
      totalDeadline = now + totalMs
      attemptDeadline = now + attemptMs
    }

    def fail(kind: String, now: Long): Unit =
      if (attempts < maxAttempts && now < totalDeadline) retryAt = Some(now + delayMs)
      else outcome = Some(kind)

    /** What happens at this very millisecond. */
    def tick(now: Long): Unit = if (outcome.isEmpty) {
      if (now >= totalDeadline) outcome = Some("AsyncTimeoutException")
      else if (retryAt.contains(now)) {
        retryAt = None
        attempts += 1
        attemptDeadline = now + attemptMs
      } else if (retryAt.isEmpty && now == attemptDeadline) fail("AsyncTimeoutException", now)
    }
  }

  private def newHarness(ordered: Boolean, capacity: Int, startMs: Long, ahead: Int): AsyncHarness = {
    val h = new AsyncHarness(
      options(ordered, capacity).copy(
        totalTimeoutMs = totalMs,
        attemptTimeoutMs = attemptMs,
        retry = retry(maxAttempts, delayMs),
        onFailure = (call, cause) => util.List.of(s"${cause.getClass.getSimpleName}*${call.attempts}"),
        lookAhead = ahead
      ),
      startMs
    )
    h
  }

  /** The emitted rows, sorted unless order is promised. */
  private def canonical(emitted: Seq[String], ordered: Boolean): Seq[String] =
    if (ordered) emitted else emitted.sorted

  for (ordered <- Seq(true, false))
    test(s"${if (ordered) "ordered" else "unordered"}: every element is decided once, as the model says") {
      forAll(Gen.choose(1, 12), Gen.choose(0, 5), Gen.listOfN(120, op)) { (capacity, ahead, ops) =>
        val h = newHarness(ordered, capacity, 0L, ahead)
        val elements = mutable.LinkedHashMap.empty[String, Expected]
        val stream = mutable.Buffer.empty[String]
        def open(pick: Int): Option[Expected] = {
          val running = elements.values.filter(e => e.isOpen && e.retryAt.isEmpty).toVector
          if (running.isEmpty) None else Some(running(pick % running.size))
        }
        def startThoseWithAPlace(): Unit =
          elements.values
            .filterNot(_.hasStarted)
            .take(capacity - elements.values.count(_.isOpen))
            .foreach(_.start(h.time.currentProcessingTime))
        def tick(): Unit = {
          h.advanceTo(h.time.currentProcessingTime + 1)
          elements.values.filter(_.isOpen).foreach(_.tick(h.time.currentProcessingTime))
          startThoseWithAPlace()
        }
        ops.zipWithIndex.foreach { case (op, index) =>
          val name = s"e$index"
          op match {
            case PutRecord if h.operator.tryProcessElement(name, 0) =>
              elements(name) = new Expected(name)
              stream += name
            case Answer(pick) =>
              open(pick).foreach { e =>
                h.answer(e.name)
                e.outcome = Some("answered")
              }
            case Fail(pick) =>
              open(pick).foreach { e =>
                h.fail(e.name, new ArithmeticException)
                e.fail("ArithmeticException", h.time.currentProcessingTime)
              }
            case Advance(ms) => (1L to ms).foreach(_ => tick())
            case _ => ()
          }
          startThoseWithAPlace()
          assert(h.metrics.inFlight == elements.values.count(_.isOpen))
          assert(elements.values.forall(e => h.attempts(e.name) == e.attempts))
        }
        h.operator.endInputReached()
        while (!h.operator.isDrained) tick()
        val expected = stream.map { name =>
          val e = elements(name)
          val outcome = e.outcome.get
          if (outcome == "answered") s"$name=>${name}1" else s"$name=>$outcome*${e.attempts}"
        }
        assert(canonical(h.emitted.toSeq, ordered) == canonical(expected.toSeq, ordered))
        assert(h.time.scheduledTimers == 0 && !h.mailbox.hasMail)
      }
    }

  test("what was emitted before a snapshot and what a restore of it emits are together every element once") {
    forAll(Gen.oneOf(true, false), Gen.choose(1, 12), Gen.choose(0, 5), Gen.listOfN(80, op)) {
      (ordered, capacity, ahead, ops) =>
        val h = newHarness(ordered, capacity, 0L, ahead)
        val stream = mutable.Buffer.empty[String]
        ops.zipWithIndex.foreach {
          case (PutRecord, i) => if (h.operator.tryProcessElement(s"e$i", 0)) stream += s"e$i"
          case (Answer(pick), _) =>
            h.calls.filterNot(_.future.isDone).lift(pick % 5).foreach(c => h.answer(c.input))
          case (Fail(pick), _) =>
            h.calls.filterNot(_.future.isDone).lift(pick % 5).foreach(c => h.fail(c.input))
          case (Advance(ms), _) => h.advanceTo(h.time.currentProcessingTime + ms)
        }
        val before = h.emitted.toSeq.map(_.takeWhile(_ != '='))
        val snapshot = h.operator.snapshotState()
        h.operator.close()
        assert(h.emitted.size == before.size)
        val later = newHarness(ordered, 13 - capacity, h.time.currentProcessingTime, ahead)
        later.onInvoke = call => call.future.completeOne("again")
        later.operator.restore(snapshot)
        later.endInput()
        val after = later.emitted.toSeq.map(_.takeWhile(_ != '='))
        assert(canonical(before ++ after, ordered) == canonical(stream.toSeq, ordered))
        snapshot.forEach {
          case Record(id, input, _) =>
            assert(later.calls.exists(c => c.input == input && c.future.elementId == id))
          case Answered(_, input, _, results) =>
            assert(!later.calls.exists(_.input == input), "a known answer is not paid for again")
            assert(results.stream.allMatch(row => later.emitted.contains(s"$input=>$row")))
        }
    }
  }
}
