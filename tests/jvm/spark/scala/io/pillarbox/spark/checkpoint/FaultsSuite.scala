package io.pillarbox.spark.checkpoint

import java.nio.file.Path
import java.util.concurrent.ConcurrentSkipListMap
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.PythonBridge
import io.pillarbox.spark.keyed.{Count, Event, KeyedFixture, Spec}
import io.pillarbox.tags.Nightly
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.funsuite.AnyFunSuite

/** Output and state are the same with and without faults: failing tasks, failing files, restarts. */
class FaultsSuite extends AnyFunSuite with KeyedFixture {

  private val rounds = 8

  private def eventsOf(round: Int): Seq[Event] =
    (0 until 6).map(i => Event((i % 3).toString, round * 10L + i, round * 1000L + i))

  /** What an undisturbed run puts out: counts 1, 2, ... of each key, in this order. */
  private def expected: Map[String, Seq[Long]] =
    (0 until 3).map(key => key.toString -> (1L to rounds * 2L)).toMap

  private def runAll(checkpoint: String, spec: Spec): Map[String, Seq[Long]] = {
    import spark.implicits._
    implicit val sqlContext: org.apache.spark.sql.SQLContext = spark.sqlContext
    val memory = MemoryStream[(String, Long, java.sql.Timestamp)]
    val batches = new ConcurrentSkipListMap[Long, Seq[Row]]
    val input = memory.toDF().toDF("k", "v", "ts").withWatermark("ts", "0 seconds")
    def start() = PythonBridge
      .processKeyed(input, null, spec.json, null)
      .writeStream
      .option("checkpointLocation", checkpoint)
      .foreachBatch((batch: DataFrame, id: Long) => batches.put(id, batch.collect().toSeq): Unit)
      .start()
    (1 to rounds).foreach { round =>
      memory.addData(eventsOf(round).map(row))
      getThrough(start())
    }
    batches.values.asScala.flatten.toSeq
      .filter(_.getString(1) == "row")
      .groupMap(_.getString(0))(_.getLong(2))
  }

  private def checkpointIn(folder: Path): Path = folder.resolve("checkpoint")

  for {
    backend <- Seq("heap", "rocksdb")
    format <- Seq("1", "2")
  } {
    def tags(isByDay: Boolean) = if (isByDay) Nil else Seq(Nightly)
    val spec = Spec(backend = backend, timers = backend, orderBy = Seq("v"), options = Map("timer" -> "1500"))
    val settings = checkpointFormat(format) ++ Seq(
      "spark.pillarbox.state.snapshotEvery" -> "2",
      "spark.sql.streaming.minBatchesToRetain" -> "3"
    )

    test(
      s"$backend, format $format: attempts that fail at random are tried again and leave nothing behind",
      Nightly
    ) {
      val random = new scala.util.Random(5)
      val failures = new AtomicInteger
      Count.beforeRow.set { (_: Row) =>
        if (random.synchronized(random.nextInt(6)) == 0) {
          failures.incrementAndGet()
          throw new IllegalStateException("at random")
        }
      }
      try
        withSettings(settings: _*)(withFolder { folder =>
          assert(runAll(checkpointIn(folder).toString, spec) == expected)
          assert(failures.get >= 5)
        })
      finally Count.beforeRow.set(_ => ())
    }

    test(
      s"$backend, format $format: a file system that fails at random changes nothing in the result",
      tags(isByDay = backend == "heap" && format == "1"): _*
    ) {
      withSettings(settings: _*)(withFolder { folder =>
        val before = FlakyFiles.failures.get
        FlakyFiles.percent = 8
        try assert(runAll(s"flaky://${checkpointIn(folder)}", spec) == expected)
        finally FlakyFiles.percent = 0
        assert(FlakyFiles.failures.get >= before + 5)
      })
    }
  }
}
