package io.pillarbox.operator

import scala.collection.mutable

import io.pillarbox.api.KeyedProcessFunction.{Context, OnTimerContext}
import io.pillarbox.api.{Collector, KeyedProcessFunction, OutputTag, ScalaSerializers}
import io.pillarbox.mailbox.{MailOptions, MailboxProcessor, ManualProcessingTimeService}
import io.pillarbox.state.KeyGroupRange
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.timer.TimerInterruption
import org.scalatest.funsuite.AnyFunSuite

/** Long rounds of timers let other mail run, and pass the watermark on as they go. */
class TimerInterruptionSuite extends AnyFunSuite {

  /**
   * Rows set timers at their time; notes timers as their times, watermarks passed on as "w10", other mail as
   * "mail".
   */
  private final class Scene {
    private val mailbox = new MailboxProcessor(_ => ())
    private val executor = mailbox.mainMailboxExecutor
    private val time = new ManualProcessingTimeService(executor)
    val seen = mutable.ArrayBuffer.empty[String]
    var onTimer: Long => Unit = _ => ()

    private val function = new KeyedProcessFunction[Long, Long, String] {
      override def processElement(at: Long, context: Context[Long], out: Collector[String]): Unit =
        if (at < 0) context.timerService.registerProcessingTimeTimer(-at)
        else context.timerService.registerEventTimeTimer(at)

      override def onTimer(at: Long, context: OnTimerContext[Long], out: Collector[String]): Unit = {
        seen += at.toString
        Scene.this.onTimer(at)
      }
    }

    private val clock = new EventClock
    val operator = new KeyedProcessOperator[Long, Long, String](
      function,
      (at: Long) => at,
      new HeapKeyedStateBackend(ScalaSerializers.long, 8, KeyGroupRange(0, 7), clock),
      clock,
      time,
      interruption = TimerInterruption.of(executor)
    )

    operator.open(new Output[String] {
      override def collect(value: String, timestamp: Long): Unit = ()
      override def collect[X](tag: OutputTag[X], value: X, timestamp: Long): Unit = ()
      override def emitWatermark(timestamp: Long): Unit = seen += s"w$timestamp"
    })

    def timers(times: Seq[Long]): Unit = times.foreach(operator.processElement(_, 0))

    def send(mail: String)(action: => Unit): Unit = executor.execute(
      () => {
        seen += mail
        action
      },
      MailOptions.Default,
      mail
    )

    def runMail(): Unit = executor.finish()

    def moveClock(to: Long): Unit = {
      time.advanceTo(to)
      runMail()
    }
  }

  test("without other mail all timers fire at once, and then the watermark is passed on") {
    val scene = new Scene
    scene.timers(1L to 5L)
    scene.operator.processWatermark(3)
    assert(scene.seen == Seq("1", "2", "3", "w3"))
    scene.operator.processWatermark(2)
    scene.operator.processWatermark(3)
    assert(scene.seen.size == 4)
  }

  test("FLINK-20217: a long round lets mail that waits run after at least one timer") {
    val scene = new Scene
    scene.timers((1L to 5L).map(_ * 10))
    scene.send("mail")(())
    scene.operator.processWatermark(100)
    assert(scene.seen.head == "10" && !scene.seen.contains("mail") && scene.operator.isFiring)
    scene.runMail()
    assert(scene.seen.indexOf("mail") < scene.seen.indexOf("50"))
    assert(scene.seen.last == "w100" && !scene.operator.isFiring)
  }

  test("FLINK-40101: an interrupted round passes on how far it has come") {
    val scene = new Scene
    scene.timers((1L to 5L).map(_ * 10))
    scene.send("mail")(())
    scene.operator.processWatermark(100)
    assert(scene.seen == Seq("10", "w19"))
    scene.runMail()
    assert(scene.seen == Seq("10", "w19", "mail", "20", "30", "40", "50", "w100"))
  }

  test("mail that never ends does not hold the watermark back for ever: rounds grow") {
    val scene = new Scene
    val count = 5000L
    scene.timers(1L to count)
    // Each mail sends the next, so there is always one that waits, until the watermark is through.
    def sendNext(): Unit = scene.send("mail")(if (scene.operator.isFiring) sendNext())
    sendNext()
    scene.operator.processWatermark(count)
    scene.runMail()
    assert(scene.seen.filter(_.head.isDigit).map(_.toLong).toList == (1L to count).toList)
    val mails = scene.seen.takeWhile(_ != s"w$count").count(_ == "mail")
    assert(mails >= 10, "other mail is held back")
    assert(mails <= 20, "the watermark is held back")
  }

  test("a watermark that comes during an interrupted round replaces it") {
    val scene = new Scene
    scene.timers((1L to 4L).map(_ * 10))
    scene.send("mail")(())
    scene.operator.processWatermark(20)
    scene.operator.processWatermark(30)
    scene.runMail()
    assert(scene.seen.filterNot(_ == "mail").last == "w30")
    assert(!scene.seen.contains("w20") && !scene.seen.contains("40"))
    val marks = scene.seen.filter(_.startsWith("w")).map(_.drop(1).toLong)
    assert(marks == marks.sorted.distinct)
  }

  test("rows that come during an interrupted round are processed at once, and the round goes on") {
    val scene = new Scene
    scene.timers(Seq(10L, 20L, 30L))
    scene.send("mail")(scene.timers(Seq(25L, 5L)))
    scene.operator.processWatermark(100)
    assert(scene.seen == Seq("10", "w19"))
    scene.runMail()
    assert(scene.seen == Seq("10", "w19", "mail", "5", "20", "25", "30", "w100"))
  }

  test("a round of processing-time timers pauses for mail and goes on") {
    val scene = new Scene
    scene.onTimer = at => if (at == 1) scene.send("mail")(())
    scene.timers((1L to 5L).map(-_))
    scene.moveClock(10)
    assert(scene.seen == Seq("1", "mail", "2", "3", "4", "5"))
    scene.timers(Seq(-20L))
    scene.moveClock(20)
    assert(scene.seen.last == "20")
  }

  test("processing-time timers fire when the clock has reached them, those for a passed time at once") {
    val scene = new Scene
    scene.timers(Seq(-20L, -10L))
    scene.moveClock(9)
    assert(scene.seen.isEmpty)
    scene.moveClock(10)
    assert(scene.seen == Seq("10"))
    scene.moveClock(25)
    scene.timers(Seq(-5L))
    scene.runMail()
    assert(scene.seen == Seq("10", "20", "5"))
  }

  test("a processing-time timer may register an earlier, a due and a later one") {
    val scene = new Scene
    scene.onTimer = at => if (at == 10) scene.timers(Seq(-5L, -15L, -30L))
    scene.timers(Seq(-10L, -40L))
    scene.moveClock(20)
    assert(scene.seen == Seq("10", "5", "15"))
    scene.moveClock(100)
    assert(scene.seen == Seq("10", "5", "15", "30", "40"))
  }
}
