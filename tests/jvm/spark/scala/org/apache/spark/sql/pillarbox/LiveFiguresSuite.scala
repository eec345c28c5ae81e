package org.apache.spark.sql.pillarbox

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.spark.SparkConf
import org.apache.spark.scheduler.EventLoggingListener
import org.scalatest.funsuite.AnyFunSuite

/** What the tab shows only while an application runs. */
class LiveFiguresSuite extends AnyFunSuite {
  private var now = 0L
  private val live = new LiveFigures(() => now)

  /** A report in which each latency has a range of a tenth. */
  private def answers(ms: Int*): CallLatencies =
    new CallLatencies(7L, ms.flatMap(one => Seq(one * 1000L, one * 1100L, 1L)).toArray)

  private def hot(partition: Int, key: String, rows: Double, of: Double) =
    new HottestKey(7L, partition, key, rows, of)

  test("latencies are those of the last five minutes") {
    live.take(1L, answers(1, 1))
    now = 200000L
    live.take(1L, answers(50))
    live.take(1L, answers(50))
    assert(live.latencies(1L).map(_.total).contains(4L))
    now = 310000L
    assert(live.latencies(1L).map(_.total).contains(2L))
    live.take(1L, answers(1))
    assert(live.latencies(1L).map(_.total).contains(3L))
    now = 1000000L
    assert(live.latencies(1L).isEmpty && live.latencies(2L).isEmpty)
  }

  test("quantiles are within a bucket of what they are") {
    live.take(2L, answers(1 to 1000: _*))
    val latencies = live.latencies(2L).get
    for (part <- Seq(0.001, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0)) {
      val exact = part * 1000
      assert(math.abs(latencies.quantile(part) - exact) <= exact / 10 + 1, part)
    }
    live.take(3L, answers(20))
    assert(live.latencies(3L).get.quantile(0.99) == 22)
  }

  test("the hottest key is that with most rows in the partitions, and its share is of all their rows") {
    live.take(4L, hot(0, "'a'", 30, 40))
    live.take(4L, hot(1, "'b'", 20, 60))
    live.take(4L, hot(2, "'c'", 1, 100))
    assert(live.hottestKey(4L, Set(0, 1, 2)).contains("'a'" -> 0.15))
    assert(live.hottestKey(4L, Set(1)).contains("'b'" -> 20.0 / 60))
    assert(live.hottestKey(4L, Set(2)).isEmpty && live.hottestKey(5L, Set(0)).isEmpty)
    live.take(4L, hot(2, "'c'", 1, 10000))
    assert(live.hottestKey(4L, Set(0, 1, 2)).isEmpty) // less than one in twenty
    live.forget(4L)
    assert(live.hottestKey(4L, Set(0)).isEmpty)
  }

  test("the hottest key of a partition that reports no more is forgotten after five minutes") {
    live.take(8L, hot(0, "'a'", 30, 40))
    now += 200000L
    live.take(8L, hot(1, "'b'", 10, 40))
    assert(live.hottestKey(8L, Set(0, 1)).contains("'a'" -> 0.375))
    now += 100000L
    assert(live.hottestKey(8L, Set(0, 1)).contains("'b'" -> 0.25))
    now += 200000L
    assert(live.hottestKey(8L, Set(0, 1)).isEmpty)
  }

  test("the picture has a bar for each bucket with answers, and says what it shows") {
    live.take(6L, answers(1, 1, 1, 200))
    val latencies = live.latencies(6L).get
    for (picture <- Seq(LatencyPicture.small(latencies), LatencyPicture.large(latencies))) {
      val bars = picture.flatMap(_ \\ "rect")
      assert(bars.size == 2)
      val Seq(tall, low) = bars.map(bar => (bar \ "@height").text.toDouble)
      assert(math.abs(tall - 3 * low) < 0.2)
      assert(picture.map(_.text).mkString.contains("p50 1."))
    }
    assert(LatencyPicture.large(latencies).map(_.text).mkString.contains("4 answers"))
  }

  test("no event log has keys") {
    val folder = Files.createTempDirectory("pillarbox-test")
    val conf = new SparkConf(false).set("spark.eventLog.compress", "false")
    val log = new EventLoggingListener("app", None, folder.toUri, conf, new Configuration)
    log.start()
    log.onOtherEvent(hot(0, "'personal'", 3, 4))
    log.onOtherEvent(answers(3))
    log.stop()
    val files = Files.walk(folder).iterator.asScala.filter(Files.isRegularFile(_)).toSeq
    val texts = files.map((file: Path) => new String(Files.readAllBytes(file)))
    assert(texts.exists(_.contains("SparkListenerLogStart")))
    assert(!texts.exists(text => text.contains("personal") || text.contains("pillarbox")))
  }
}
