package io.pillarbox.timer

import scala.collection.mutable

import io.pillarbox.mailbox.MailOptions
import io.pillarbox.state.serialization.Serializers
import org.scalatest.funsuite.AnyFunSuite

class MailboxWatermarkProcessorSuite extends AnyFunSuite {

  /** Notes timers as their times, watermarks passed on as "w10", other mail as "mail". */
  private final class Scene {
    val timers = new TimerFixture(TimerQueues.Heap, Serializers.long, interruptible = true)
    val seen = mutable.ArrayBuffer.empty[String]
    val processor =
      new MailboxWatermarkProcessor(timers.service, timers.interruption, mark => seen += s"w$mark")
    timers.onTimer = timer => seen += timer.timestamp.toString

    def send(mail: String)(action: => Unit): Unit = timers.executor.execute(
      () => {
        seen += mail
        action
      },
      MailOptions.Default,
      mail
    )
  }

  test("without other mail all timers fire at once, and then the watermark is passed on") {
    val scene = new Scene
    (1L to 5L).foreach(time => scene.timers.event(time, time))
    scene.processor.processWatermark(3)
    assert(scene.seen == Seq("1", "2", "3", "w3"))
    scene.processor.processWatermark(2)
    scene.processor.processWatermark(3)
    assert(scene.seen.size == 4)
  }

  test("FLINK-20217: a long round lets mail that waits run after at least one timer") {
    val scene = new Scene
    (1L to 5L).foreach(time => scene.timers.event(time, time * 10))
    scene.send("mail")(())
    scene.processor.processWatermark(100)
    assert(scene.seen.head == "10" && !scene.seen.contains("mail") && scene.processor.isPending)
    scene.timers.runMail()
    assert(scene.seen.indexOf("mail") < scene.seen.indexOf("50"))
    assert(scene.seen.last == "w100" && !scene.processor.isPending)
  }

  test("FLINK-40101: an interrupted round passes on how far it has come") {
    val scene = new Scene
    (1L to 5L).foreach(time => scene.timers.event(time, time * 10))
    scene.send("mail")(())
    scene.processor.processWatermark(100)
    assert(scene.seen == Seq("10", "w19"))
    scene.timers.runMail()
    assert(scene.seen == Seq("10", "w19", "mail", "20", "30", "40", "50", "w100"))
  }

  test("mail that never ends does not hold the watermark back for ever: rounds grow") {
    val scene = new Scene
    val count = 5000L
    (1L to count).foreach(time => scene.timers.event(time, time))
    // Each mail sends the next, so there is always one that waits, until the watermark is through.
    def sendNext(): Unit = scene.send("mail")(if (scene.processor.isPending) sendNext())
    sendNext()
    scene.processor.processWatermark(count)
    scene.timers.runMail()
    assert(scene.timers.fired.map(_.timestamp).toList == (1L to count).toList)
    val mails = scene.seen.takeWhile(_ != s"w$count").count(_ == "mail")
    assert(mails >= 10, "other mail is held back")
    assert(mails <= 20, "the watermark is held back")
  }

  test("a watermark that comes during an interrupted round replaces it") {
    val scene = new Scene
    (1L to 4L).foreach(time => scene.timers.event(time, time * 10))
    scene.send("mail")(())
    scene.processor.processWatermark(20)
    scene.processor.processWatermark(30)
    scene.timers.runMail()
    assert(scene.seen.filterNot(_ == "mail").last == "w30")
    assert(!scene.seen.contains("w20") && !scene.seen.contains("40"))
    val marks = scene.seen.filter(_.startsWith("w")).map(_.drop(1).toLong)
    assert(marks == marks.sorted.distinct)
  }

  test("a round of processing-time timers pauses for mail and goes on") {
    val timers = new TimerFixture(TimerQueues.Heap, Serializers.long, interruptible = true)
    val seen = mutable.ArrayBuffer.empty[String]
    timers.onTimer = timer => {
      seen += timer.timestamp.toString
      if (timer.timestamp == 1) timers.executor.execute(() => seen += "mail", MailOptions.Default, "mail")
    }
    (1L to 5L).foreach(time => timers.processing(time, time))
    timers.moveClock(10)
    assert(seen == Seq("1", "mail", "2", "3", "4", "5"))
    timers.processing(1, 20)
    timers.moveClock(20)
    assert(seen.last == "20")
  }
}
