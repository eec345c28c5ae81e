package io.pillarbox.spark.async

import java.util.concurrent.atomic.AtomicReference

import io.pillarbox.spark.functions.Held
import org.apache.spark.TaskContext
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.{DataFrame, Dataset, Row}

/** A micro-batch whose input blocks does not keep back what is ready. */
class BlockingInputSuite extends StreamFixture {
  import spark.implicits._

  private def memory(): MemoryStream[Long] = MemoryStream[Long](spark)

  private def gated(rows: MemoryStream[Long]): DataFrame = rows.toDS().map(Gate.pass(_)).toDF("id")

  test("a row leaves when its call ends, while the input blocks") {
    val rows = memory()
    rows.addData(1L, 2L, 3L)
    Gate.closeAt(2)
    val query = start(calls(gated(rows), "x")())
    eventually(assert(seen == Seq(Row(1L, 1L))))
    assert(isReading)
    Gate.closeAt(Long.MaxValue)
    query.processAllAvailable()
    assert(seen == Seq(Row(1L, 1L), Row(2L, 2L), Row(3L, 3L)))
    eventually(assert(!isReading))
  }

  test("also with a filter and a projection between two operators, and with two operators in a row") {
    val rows = memory()
    rows.addData(1L, 2L, 3L, 4L)
    Gate.closeAt(3)
    val first = calls(gated(rows), "x")().where("x > 1").selectExpr("id", "x + 1 as y")
    val query = start(calls(calls(first, "u")(), "v")())
    eventually(assert(seen == Seq(Row(2L, 3L, 2L, 2L))))
    Gate.closeAt(Long.MaxValue)
    query.processAllAvailable()
    assert(seen.map(_.getLong(0)) == Seq(2L, 3L, 4L))
    eventually(assert(!isReading))
  }

  test("every row comes once and in order, however fast the input is") {
    val rows = memory()
    val query = start(calls(gated(rows), "x")())
    for (batch <- 0L until 3L) {
      rows.addData(batch * 5000L until (batch + 1) * 5000L)
      query.processAllAvailable()
    }
    val ids = seen.map(_.getLong(0))
    assert(ids.sorted == (0L until 15000L))
    assert(query.recentProgress.map(_.numInputRows).sum == 15000)
  }

  test("an error of the input fails the query as it was thrown") {
    val rows = memory()
    rows.addData(1L, 2L)
    val failing = rows.toDS().map(id => if (id == 2) BlockingInputSuite.fail(id) else id).toDF("id")
    val error = intercept[StreamingQueryException](start(calls(failing, "x")()).processAllAvailable())
    val cause = causes(error).last
    assert(cause.isInstanceOf[IllegalStateException] && cause.getMessage == "no row 2")
    assert(cause.getStackTrace.exists(_.getMethodName == "fail"))
  }

  test("a query that is stopped while the input blocks leaves no thread and no call") {
    val rows = memory()
    rows.addData(1L, 2L)
    Held.reset(below = 0)
    Gate.closeAt(2)
    val query = start(calls(gated(rows), "x")())
    eventually(assert(Held.started.get == 1))
    query.stop()
    eventually {
      assert(!isReading)
      assert(Held.cancelled.get == 1 && Held.closed.get == 1)
    }
  }

  test("what the input frees at the end of the task is freed when nobody reads it any more") {
    val rows = memory()
    rows.addData(0L until 100000L)
    val wasReading = BlockingInputSuite.wasReading
    wasReading.set(null)
    val freeing = rows.toDS().mapPartitions(BlockingInputSuite.freesAtEnd(_)).toDF("id")
    val taken = new AtomicReference[Seq[Row]]
    val query = calls(freeing, "x")().writeStream
      .foreachBatch((batch: Dataset[Row], _: Long) => taken.set(batch.take(1).toSeq))
      .start()
    query.processAllAvailable()
    assert(taken.get == Seq(Row(0L, 0L)))
    assert(wasReading.get == "no")
  }

  test("the input finds the task's context, its number and its configuration") {
    val rows = memory()
    rows.addData(1L)
    val asked = rows.toDS().map(BlockingInputSuite.ask(_)).toDF("id")
    spark.conf.set("spark.sql.maxMetadataStringLength", 77)
    try start(calls(asked, "x")()).processAllAvailable()
    finally spark.conf.unset("spark.sql.maxMetadataStringLength")
    assert(BlockingInputSuite.found.get == "0 77 true")
  }

  test("a streaming aggregation below it keeps its state, in both of Spark's stores") {
    for (store <- Seq("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")) {
      Seen.rows.clear()
      val provider = "spark.sql.streaming.stateStore.providerClass"
      spark.conf.set(provider, s"org.apache.spark.sql.execution.streaming.state.$store")
      try {
        val rows = memory()
        val counts = rows.toDF().groupBy((col("value") % 3).as("id")).count()
        val query = start(calls(counts, "x") { spec => spec.putArray("inputs").add("id"): Unit })
        for (_ <- 1 to 3) {
          rows.addData(0L until 30L)
          query.processAllAvailable()
        }
        query.stop()
      } finally spark.conf.unset(provider)
      assert(seen.map(_.toSeq).toSet == (for { k <- 0L to 2L; n <- 1L to 3L } yield Seq(k, 10 * n, k)).toSet)
    }
  }

  test("a batch job reads on its task's own thread") {
    val threads = spark.range(0, 4, 1, 1).map(_ => Thread.currentThread().getName).toDF("name")
    val called = calls(threads.selectExpr("name", "cast(0 as bigint) as id"), "x") { spec =>
      spec.putArray("inputs").add("id"): Unit
    }
    assert(called.collect().forall(!_.getString(0).startsWith("pillarbox input")))
  }
}

object BlockingInputSuite {
  val wasReading = new AtomicReference[String]
  val found = new AtomicReference[String]

  def fail(id: Long): Long = throw new IllegalStateException(s"no row $id")

  def ask(id: Long): Long = {
    val task = TaskContext.get()
    val isInput = Thread.currentThread().getName == s"pillarbox input of task ${task.taskAttemptId()}"
    found.set(s"${task.partitionId()} ${SQLConf.get.maxMetadataStringLength} $isInput")
    id
  }

  def freesAtEnd(rows: Iterator[Long]): Iterator[Long] = {
    @volatile var inside = false
    TaskContext.get().addTaskCompletionListener[Unit](_ => wasReading.set(if (inside) "yes" else "no"))
    rows.map { id =>
      // Registered by each file in turn where Spark reads files.
      if (id == 1)
        TaskContext.get().addTaskCompletionListener[Unit](_ => if (inside) wasReading.set("yes"))
      inside = true
      try if (id > 200) Thread.sleep(1)
      finally inside = false
      id
    }
  }
}
