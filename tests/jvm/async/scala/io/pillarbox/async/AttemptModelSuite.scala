package io.pillarbox.async

import java.util

import scala.collection.mutable

import io.pillarbox.async.AsyncHarness._
import io.pillarbox.metered.limit._
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

/**
 * Messages about any attempt there ever was, at any time, against the life of an attempt as a state machine:
 * it is started, and ends once, by the first of an answer, a failure and its deadline. Nothing else may
 * happen to it, and nothing that is said of it may happen to another.
 */
class AttemptModelSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  override implicit val generatorDrivenConfig: PropertyCheckConfiguration =
    PropertyCheckConfiguration(minSuccessful = 100)

  private val attemptMs = 30L
  private val maxAttempts = 4
  private val timedOut = "AsyncTimeoutException"

  private sealed trait Op
  private case object Put extends Op
  private case class Answer(pick: Int) extends Op
  private case class Fail(pick: Int) extends Op
  private case class Advance(ms: Long) extends Op

  private val op: Gen[Op] = Gen.frequency(
    5 -> Gen.const(Put),
    3 -> Gen.choose(0, 1000).map(Answer(_)),
    4 -> Gen.choose(0, 1000).map(Fail(_)),
    3 -> Gen.choose(0L, 20L).map(Advance(_))
  )

  private case class Setting(
      batch: Option[Int],
      permits: Option[Int],
      backoffMs: Long,
      totalMs: Long,
      ordered: Boolean
  )

  private val setting: Gen[Setting] = for {
    batch <- Gen.option(Gen.choose(1, 4))
    permits <- Gen.option(Gen.choose(1, 3))
    backoffMs <- Gen.oneOf(0L, 1L, 15L)
    totalMs <- Gen.oneOf(0L, 50L)
    ordered <- Gen.oneOf(true, false)
  } yield Setting(batch, permits, backoffMs, totalMs, ordered)

  /** One attempt, in the model: running until something ends it. */
  private final class Attempt(val call: Call, val startedMs: Long) {
    var end: Option[String] = None
    def isRunning: Boolean = end.isEmpty
  }

  private final class Fixture(setting: Setting) {
    private val limiter: Limiter = setting.permits.fold(Limiter.Unlimited)(TestLimit.ofCalls(_))
    val h = new AsyncHarness(
      options(setting.ordered, capacity = 8).copy(
        attemptTimeoutMs = attemptMs,
        totalTimeoutMs = setting.totalMs,
        retry = retry(maxAttempts, setting.backoffMs),
        onFailure = (call, cause) => util.List.of(s"${cause.getClass.getSimpleName}*${call.attempts}"),
        limiter = limiter,
        batching = setting.batch.map(Batching(_, 7))
      )
    )
    val attempts = mutable.Buffer.empty[Attempt]
    private val sizes = mutable.Buffer.empty[Int]

    /** What becomes of an element, as soon as it is certain. */
    val outcomes = mutable.Map.empty[String, String]

    /** Takes over what the operator has started, which must be the next attempt of an element without one. */
    def noteStarted(): Unit = {
      h.calls.drop(attempts.size).foreach { call =>
        val before = attempts.filter(_.call.input == call.input)
        assert(call.attempt == before.size + 1 && before.forall(!_.isRunning))
        assert(!outcomes.contains(call.input), call)
        attempts += new Attempt(call, h.time.currentProcessingTime)
      }
      val known = sizes.sum
      if (setting.batch.isEmpty) sizes ++= Seq.fill(attempts.size - known)(1)
      else sizes ++= h.groups.drop(sizes.size).map(_.size)
      assert(sizes.sum == attempts.size && sizes.forall(_ <= setting.batch.getOrElse(1)))
    }

    def check(): Unit = {
      noteStarted()
      attempts.foreach(a => assert(a.call.future.isDone != a.isRunning, a.call))
      val calls = mutable.Buffer.empty[Seq[Attempt]]
      sizes.foldLeft(0) { (from, size) =>
        calls += attempts.slice(from, from + size).toSeq
        from + size
      }
      limiter match {
        case limited: LocalLimit => assert(limited.inUse == calls.count(_.exists(_.isRunning)))
        case _ => ()
      }
    }

    private def end(attempt: Attempt, how: String): Unit = {
      attempt.end = Some(how)
      val call = attempt.call
      if (how == "answered") outcomes(call.input) = s"${call.input}#${call.attempt}"
      else if (call.attempt == maxAttempts) outcomes(call.input) = s"$how*$maxAttempts"
    }

    def say(pick: Int, how: String): Unit = if (attempts.nonEmpty) {
      val attempt = attempts(pick % attempts.size)
      if (attempt.isRunning) end(attempt, how)
      val future = attempt.call.future
      if (how == "answered") future.completeOne(s"${attempt.call.input}#${attempt.call.attempt}")
      else future.completeExceptionally(new ArithmeticException)
      h.runMail()
    }

    def tick(): Unit = {
      h.time.advanceTo(h.time.currentProcessingTime + 1)
      val now = h.time.currentProcessingTime
      if (setting.totalMs > 0) for {
        (name, own) <- attempts.groupBy(_.call.input)
        if !outcomes.contains(name) && own.map(_.startedMs).min + setting.totalMs <= now
      } {
        own.filter(_.isRunning).foreach(_.end = Some(timedOut))
        outcomes(name) = s"$timedOut*${own.size}"
      }
      attempts.filter(a => a.isRunning && a.startedMs + attemptMs <= now).foreach(end(_, timedOut))
      h.runMail()
      noteStarted()
    }

    def expected: Set[String] = outcomes.map { case (name, outcome) => s"$name=>$outcome" }.toSet
  }

  test("whatever is said of whichever attempt, and whenever, decides this attempt, or nothing") {
    forAll(setting, Gen.listOfN(120, op)) { (setting, ops) =>
      val f = new Fixture(setting)
      var put = 0
      ops.foreach { op =>
        op match {
          case Put => if (f.h.operator.tryProcessElement(s"e$put", 0)) put += 1
          case Answer(pick) => f.say(pick, "answered")
          case Fail(pick) => f.say(pick, "ArithmeticException")
          case Advance(ms) => (1L to ms).foreach(_ => f.tick())
        }
        f.check()
      }
      f.h.operator.endInputReached()
      f.check()
      while (!f.h.operator.isDrained) f.tick()
      f.check()
      assert(f.h.emitted.toSet == f.expected && f.h.emitted.size == put)
      assert(f.h.time.scheduledTimers == 0 && f.h.metrics.inFlight == 0)
    }
  }
}
