package io.pillarbox.spark.async

import java.nio.file.Files

import io.pillarbox.spark.PythonBridge
import io.pillarbox.spark.functions.Held
import io.pillarbox.spark.keyed.Spec
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.streaming.{StreamingQuery, StreamingQueryException, Trigger}
import org.apache.spark.sql.{DataFrame, Row}

/** Queries with a real-time trigger, whose batches are long and whose rows leave at once. */
class RealTimeSuite extends StreamFixture {
  import spark.implicits._

  // Spark's shortest batch has five seconds by default.
  spark.conf.set("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
  private val RealTime = Trigger.RealTime("1 second")

  private def memory(): LowLatencyMemoryStream[Long] =
    LowLatencyMemoryStream.singlePartition[Long](spark)

  private def ids(rows: LowLatencyMemoryStream[Long]): DataFrame = rows.toDF().toDF("id")

  private def failure(query: StreamingQuery): String = {
    val error = intercept[StreamingQueryException](query.awaitTermination())
    causes(error).map(_.getMessage).mkString("\n")
  }

  test("a row leaves when its call ends, and holds back none of a later call that is unordered") {
    Held.reset(below = 100)
    val rows = memory()
    val query = start(
      calls(ids(rows), "x") { spec => spec.put("ordered", false): Unit },
      RealTime
    )
    rows.addData(Seq(1L))
    eventually(assert(seen == Seq(Row(1L, 1L))))
    rows.addData(Seq(100L, 2L))
    eventually(assert(seen == Seq(Row(1L, 1L), Row(2L, 2L))))
    val (id, future) = Held.held.poll()
    future.completeOne(Row(-id))
    eventually(assert(seen.last == Row(100L, -100L)))
    query.stop()
    eventually(assert(Held.opened.get == Held.closed.get && !isReading))
  }

  test("with filters and projections around and between two operators, their names and types") {
    val rows = memory()
    val odd = ids(rows).where("id % 2 = 1").selectExpr("id", "cast(id as string) as text", "null as none")
    val first = calls(odd, "x") { spec => spec.putArray("inputs").add("id"): Unit }
    val second = calls(first.where("x > 1").withColumn("id", $"x" + 10), "y") { spec =>
      spec.putArray("inputs").add("id"): Unit
    }
    val query = start(second.where("y < 20"), RealTime)
    rows.addData(1L to 12L)
    eventually(assert(seen.map(_.getLong(0)) == Seq(13L, 15L, 17L, 19L)))
    assert(seen.head == Row(13L, "3", null, 3L, 13L))
    assert(seen.head.schema.fieldNames.toSeq == Seq("id", "text", "none", "x", "y"))
    query.stop()
  }

  test("the batches of a query go on where the one before has ended, and so does a restarted query") {
    val rows = memory()
    val folder = Files.createTempDirectory("realtime")
    val query = start(calls(ids(rows), "x")(), RealTime, folder)
    rows.addData(1L to 5L)
    eventually(assert(query.recentProgress.map(_.numInputRows).sum == 5))
    rows.addData(6L to 9L)
    eventually(assert(query.recentProgress.map(_.numInputRows).sum == 9))
    query.stop()
    rows.addData(10L to 12L)
    val again = start(calls(ids(rows), "x")(), RealTime, folder)
    eventually(assert(seen.map(_.getLong(0)).toSet == (1L to 12L).toSet))
    eventually(assert(again.recentProgress.map(_.numInputRows).sum == 3))
    again.stop()
    // What a batch that had not ended has read is read again.
    assert(seen.map(_.getLong(0)).distinct == (1L to 12L))
  }

  test("operators that Spark refuses in this mode are refused with ours in the plan, and ours is not") {
    val rows = memory()
    val text = failure(start(calls(ids(rows).repartition(2), "x")(), RealTime))
    assert(text.contains("OPERATOR_OR_SINK_NOT_IN_ALLOWLIST") && text.contains("ShuffleExchangeExec"))
    assert(!text.contains("pillarbox") && !text.contains("MapPartitions"))
    assert(Held.started.get == 0)
  }

  test("a keyed operator is refused with our words before a row is read") {
    val keyed = ids(memory()).selectExpr("cast(id as string) as k", "id as v", "current_timestamp() as ts")
    val text = failure(
      start(PythonBridge.processKeyed(keyed, null, Spec(returns = "k string, n bigint").json, null), RealTime)
    )
    assert(text.contains("[REAL_TIME_KEYED] process_keyed(") && text.contains("processingTime"))
  }

  test("an error of a call fails the query, and a stop while calls are in flight cancels them") {
    Held.reset(below = 0)
    val rows = memory()
    val query = start(calls(ids(rows), "x")(), RealTime)
    rows.addData(Seq(1L, 2L))
    eventually(assert(Held.started.get == 2))
    query.stop()
    eventually(assert(Held.cancelled.get == 2 && Held.closed.get == 1 && !isReading))
  }
}
