package io.pillarbox.mailbox

import scala.collection.mutable

import io.pillarbox.mailbox.MailboxTesting.onAnotherThread
import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

class ProcessingTimeServiceSuite extends AnyFunSuite with ScalaCheckPropertyChecks {

  private def register(time: ProcessingTimeService, ms: Long, action: Long => Unit): ProcessingTimer = {
    val timer = new ProcessingTimer {
      override def onProcessingTime(timestampMs: Long): Unit = action(timestampMs)
    }
    time.schedule(timer, ms)
    timer
  }

  private final class Fixture {
    val mailbox = new TaskMailbox(Thread.currentThread())
    val executor = new MailboxExecutor(mailbox, 0)
    val time = new ManualProcessingTimeService(executor)
    val fired = mutable.Buffer.empty[Long]

    def at(ms: Long): ProcessingTimer = register(time, ms, timestamp => fired += timestamp)

    def runMail(): Unit = while (executor.tryYield()) {}
  }

  test("a timer fires as mail, in the order of the times, not before its time") {
    val f = new Fixture
    Seq(30L, 10L, 20L, 10L).foreach(f.at)
    f.time.advanceTo(9)
    f.runMail()
    assert(f.fired.isEmpty)
    f.time.advanceTo(20)
    assert(f.fired.isEmpty, "it fires in the mail, not in the clock")
    f.runMail()
    assert(f.fired == Seq(10L, 10L, 20L))
    assert(f.time.scheduledTimers == 1 && f.time.nextTimerMs == 30)
  }

  test("a timer for a time that has passed fires at once, as mail") {
    val f = new Fixture
    f.time.advanceTo(100)
    f.at(50)
    assert(f.fired.isEmpty)
    f.runMail()
    assert(f.fired == Seq(50L))
  }

  test("a cancelled timer does not fire, and cancelling tells whether it would have") {
    val f = new Fixture
    val timer = f.at(10)
    assert(timer.isScheduled && f.time.cancel(timer) && !timer.isScheduled && !f.time.cancel(timer))
    f.time.advanceTo(10)
    f.runMail()
    assert(f.fired.isEmpty)
  }

  test("a timer that is cancelled between its time and its mail does not fire") {
    val f = new Fixture
    val timer = f.at(10)
    f.time.advanceTo(10)
    assert(f.time.cancel(timer))
    f.runMail()
    assert(f.fired.isEmpty)
  }

  test("scheduling again moves the timer") {
    val f = new Fixture
    val timer = f.at(10)
    f.time.schedule(timer, 30)
    f.time.advanceTo(20)
    f.runMail()
    assert(f.fired.isEmpty)
    f.time.schedule(timer, 15)
    f.runMail()
    assert(f.fired == Seq(15L))
  }

  test("a callback may register timers; those without end leave room for other mail") {
    val f = new Fixture
    def again(): Unit = {
      register(f.time, 0, _ => if (f.fired.size < 100000) again())
      f.fired += 0L
    }
    again()
    f.executor.yieldMail()
    assert(f.fired.size <= MailTimers.MaxPerMail + 1)
    f.executor.execute(() => f.fired += -1L, "other")
    f.executor.yieldMail()
    f.executor.yieldMail()
    assert(f.fired.contains(-1L))
  }

  test("what a callback throws fails the mail, and the other timers stay") {
    val f = new Fixture
    register(f.time, 1, _ => throw new ArithmeticException)
    f.at(2)
    f.time.advanceTo(1)
    intercept[ArithmeticException](f.executor.yieldMail())
    f.time.advanceTo(2)
    f.runMail()
    assert(f.fired == Seq(2L))
  }

  test("the clock does not go back") {
    val f = new Fixture
    f.time.advanceTo(5)
    assert(intercept[IllegalArgumentException](f.time.advanceTo(4)).getMessage.contains("from 5 to 4"))
  }

  test("after close nothing fires and nothing is taken") {
    val f = new Fixture
    f.at(1)
    onAnotherThread(f.time.close())
    f.at(1)
    assert(f.time.scheduledTimers == 1)
    f.time.advanceTo(2)
    f.runMail()
    assert(f.fired.isEmpty)
  }

  test("timers set, moved, cancelled and due in any order fire as a plain map says") {
    val op = Gen.zip(Gen.choose(0, 3), Gen.choose(0, 9), Gen.choose(0L, 30L))
    forAll(Gen.listOfN(60, op)) { ops =>
      val f = new Fixture
      val model = mutable.Map.empty[Int, Long]
      val firedIds = mutable.Buffer.empty[Int]
      val timers = Array.tabulate(10)(id =>
        new ProcessingTimer {
          override def onProcessingTime(timestampMs: Long): Unit = firedIds += id
        }
      )
      for ((kind, id, ms) <- ops) kind match {
        case 0 | 1 =>
          f.time.schedule(timers(id), f.time.currentProcessingTime + 1 + ms)
          model(id) = f.time.currentProcessingTime + 1 + ms
        case 2 => assert(f.time.cancel(timers(id)) == model.remove(id).isDefined)
        case _ =>
          f.time.advanceBy(ms)
          f.runMail()
          val due = model.filter(_._2 <= f.time.currentProcessingTime)
          assert(firedIds.toSet == due.keySet && firedIds.size == due.size)
          assert(firedIds.map(due) == firedIds.map(due).sorted)
          model --= due.keys
          firedIds.clear()
      }
      assert(f.time.scheduledTimers == model.size)
      assert(f.time.nextTimerMs == model.values.minOption.getOrElse(Long.MaxValue))
    }
  }

  test("by the machine's clock a timer fires as mail and not early, an earlier one overtaking a later") {
    val mailbox = new TaskMailbox(Thread.currentThread())
    val executor = new MailboxExecutor(mailbox, 0)
    val time = new SystemProcessingTimeService(executor)
    val fired = mutable.Buffer.empty[String]
    val start = time.currentProcessingTime
    assert(math.abs(start - System.currentTimeMillis()) < 60000)
    register(time, Long.MaxValue, _ => fired += "never")
    register(
      time,
      start + 20,
      timestamp => {
        assert(time.currentProcessingTime >= timestamp)
        fired += "later"
      }
    )
    register(time, start + 5, _ => fired += "earlier")
    val cancelled = register(time, start + 1, _ => fired += "cancelled")
    time.cancel(cancelled)
    while (fired.size < 2) executor.yieldMail()
    assert(fired == Seq("earlier", "later"))
    time.close()
  }

  test("by the machine's clock the timers behind one whose callback throws still fire") {
    val executor = new MailboxExecutor(new TaskMailbox(Thread.currentThread()), 0)
    val time = new SystemProcessingTimeService(executor)
    val start = time.currentProcessingTime
    var fired = false
    register(time, start, _ => throw new ArithmeticException)
    register(time, start + 3, _ => fired = true)
    intercept[ArithmeticException](executor.yieldMail())
    while (!fired) executor.yieldMail()
    time.close()
  }

  test("a task that ended does not trouble the shared timer thread") {
    val mailbox = new TaskMailbox(Thread.currentThread())
    val time = new SystemProcessingTimeService(new MailboxExecutor(mailbox, 0))
    register(time, time.currentProcessingTime, _ => fail("fired"))
    mailbox.close()
    val other = new TaskMailbox(Thread.currentThread())
    val executor = new MailboxExecutor(other, 0)
    val alive = new SystemProcessingTimeService(executor)
    var fired = false
    register(alive, alive.currentProcessingTime + 1, _ => fired = true)
    while (!fired) executor.yieldMail()
  }
}
