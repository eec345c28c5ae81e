package io.pillarbox.spark.checkpoint

import java.nio.file.{Path => LocalPath}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.{Event, KeyedFixture, Spec}
import org.apache.hadoop.fs.Path
import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/** A restarted query without input, whose driver fails once to read what its slots wait for. */
class RestartWakeUpSuite extends AnyFunSuite with KeyedFixture with Eventually {
  override implicit val patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds), Span(20, Millis))

  private val slot = ".*/state/0/\\d+(/.*)?"

  private def unreadable[A](body: => A): A = {
    val before = FlakyFiles.failures.get
    FlakyFiles.failing = (path: Path) =>
      TaskContext.get() == null && path.toString.matches(slot) && FlakyFiles.failures.get == before
    try {
      val result = body
      assert(FlakyFiles.failures.get > before)
      result
    } finally FlakyFiles.failing = _ => false
  }

  test("timers that are due fire") {
    withFolder { folder =>
      val stream = new Stream(LocalPath.of(s"flaky:$folder"))
      def result = process(stream.watermarked, Spec(options = Map("timer" -> "1")))
      // The run ends with a timer due and not fired.
      withSettings("spark.sql.streaming.noDataMicroBatches.enabled" -> "false") {
        stream.add(Event("a", 1, 1000))
        stream.runOnce(result)
        stream.add(Event("c", 1, 9000))
        stream.runOnce(result)
      }
      def fired = stream.rows.filter(_.getString(1) == "event").map(_.getString(0))
      assert(fired.isEmpty)
      unreadable(stream.runOnce(result))
      assert(fired == Seq("a"))
      val batches = stream.batches.size
      stream.runOnce(result)
      assert(stream.batches.size == batches)
    }
  }

  test("calls that were in flight are made again") {
    import spark.implicits._
    withFolder { folder =>
      Held.reset(below = 0)
      val memory = MemoryStream[Long](spark)
      val rows = new ConcurrentLinkedQueue[Row]
      val carried = SpecBuilder.asyncIO(memory.toDF().toDF("id"), classOf[Held], "x long") { spec =>
        spec.putObject("carry_over").put("slots", 1): Unit
      }
      def start() = carried.writeStream
        .option("checkpointLocation", s"flaky:$folder")
        .foreachBatch((batch: DataFrame, _: Long) => rows.addAll(batch.collect().toSeq.asJava): Unit)
        .start()
      memory.addData(1L, 2L)
      val first = start()
      eventually(assert(first.recentProgress.exists(_.numInputRows == 2) && Held.started.get == 2))
      first.stop()
      Held.reset(below = Long.MaxValue)
      unreadable {
        val again = start()
        try again.processAllAvailable()
        finally again.stop()
      }
      assert(rows.asScala.toSeq == Seq(Row(1L, 1L), Row(2L, 2L)))
    }
  }
}
