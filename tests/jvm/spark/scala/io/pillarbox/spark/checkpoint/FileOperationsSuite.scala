package io.pillarbox.spark.checkpoint

import io.pillarbox.spark.SpecBuilder
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.{KeyedFixture, Spec}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.StreamingQuery
import org.scalatest.funsuite.AnyFunSuite

/**
 * The operations on the checkpoint's file system, for state, of a micro-batch: as docs/recovery.md states them.
 * The file system is one with `rename` alone; two partitions or slots.
 */
class FileOperationsSuite extends AnyFunSuite with KeyedFixture {
  private val partitions = 2

  /** Runs micro-batches, with rows for all partitions, until state is open and the operator is noted. */
  private def running(operator: DataFrame => DataFrame)(body: (() => Unit, StreamingQuery) => Unit): Unit =
    withSettings("spark.pillarbox.state.snapshotEvery" -> "1000")(withFolder { folder =>
      import spark.implicits._
      val memory = MemoryStream[Long](spark, partitions)
      val query = operator(memory.toDF().toDF("id")).writeStream
        .option("checkpointLocation", s"counting://$folder/checkpoint")
        .format("noop")
        .start()
      def micro(): Unit = {
        memory.addData(0L until 20L)
        query.processAllAvailable()
      }
      try {
        (1 to 3).foreach(_ => micro())
        CountingFiles.take()
        body(() => micro(), query)
      } finally query.stop()
    })

  private def keyed(rows: DataFrame): DataFrame =
    process(rows.selectExpr("cast(id as string) k", "id v", "timestamp_millis(id) ts"), Spec())

  private def carrying(rows: DataFrame): DataFrame = {
    Held.reset(below = 1000)
    SpecBuilder.asyncIO(rows, classOf[Held], "x long") { spec =>
      spec.putObject("carry_over").put("slots", partitions): Unit
    }
  }

  test("a commit of keyed state creates a file and renames it, in each partition, and no more") {
    running(keyed) { (micro, _) =>
      micro()
      assert(CountingFiles.take() == Map("create" -> partitions, "rename" -> partitions))
    }
  }

  test("so does a slot of carried calls, which reads nothing of what it has written itself") {
    running(carrying) { (micro, query) =>
      val before = query.lastProgress.batchId
      micro()
      val batches = (query.lastProgress.batchId - before).toInt
      val files = partitions * batches
      assert(CountingFiles.take() == Map("create" -> files, "rename" -> files))
    }
  }
}
