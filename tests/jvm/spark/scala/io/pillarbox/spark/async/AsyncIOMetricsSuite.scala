package io.pillarbox.spark.async

import com.fasterxml.jackson.databind.node.ObjectNode
import io.pillarbox.spark.functions.{Held, Metered, OddFails, Repeat, SecondTime}
import io.pillarbox.spark.plan.AsyncIOExec
import io.pillarbox.spark.{LocalSpark, SpecBuilder}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.scalatest.funsuite.AnyFunSuite

class AsyncIOMetricsSuite extends AnyFunSuite with LocalSpark with AdaptiveSparkPlanHelper {

  test("calls, rows and calls in flight are counted") {
    val df = asyncIO[Repeat](rows = 10)()
    assert(df.collect().length == 45)
    val metrics = metricsOf(df)
    assert(metrics(AsyncIOMetrics.Calls) == 10)
    assert(metrics(AsyncIOMetrics.OutputRows) == 45)
    assert(metrics(AsyncIOMetrics.Retries) == 0 && metrics(AsyncIOMetrics.Errors) == 0)
    assert(metrics(AsyncIOMetrics.Timeouts) == 0)
  }

  test("a retried call counts twice") {
    val df = asyncIO[SecondTime](rows = 10) { spec =>
      spec.putObject("retry").put("max_attempts", 2).put("backoff_ms", 1)
      ()
    }
    assert(df.collect().length == 10)
    val metrics = metricsOf(df)
    assert(metrics(AsyncIOMetrics.Calls) == 20 && metrics(AsyncIOMetrics.Retries) == 10)
    assert(metrics(AsyncIOMetrics.Errors) == 0)
  }

  test("what calls report of their use is summed up by unit") {
    val df = asyncIO[Metered](rows = 10) { spec => spec.putArray("units").add("tokens").add("usd"); () }
    assert(df.collect().length == 10)
    val metrics = metricsOf(df)
    assert(metrics(AsyncIOMetrics.usage("tokens")) == 45 && metrics(AsyncIOMetrics.usage("usd")) == 5)
  }

  test("rows that failed for good are errors") {
    val df = asyncIO[OddFails](rows = 10) { spec => spec.put("on_error", "null"); () }
    assert(df.collect().length == 10)
    assert(metricsOf(df)(AsyncIOMetrics.Errors) == 5)
  }

  test("deadlines, the time waiting for room and latencies are measured") {
    Held.reset(below = 0)
    val df = asyncIO[Held](rows = 6) { spec =>
      spec.put("capacity", 3).put("total_timeout_ms", 400).put("on_error", "null")
      ()
    }
    assert(df.collect().length == 6)
    val metrics = metricsOf(df)
    assert(metrics(AsyncIOMetrics.Timeouts) == 6)
    assert(metrics(AsyncIOMetrics.CapacityWait) >= 200L * 1000 * 1000)
    assert(averageOf(df, AsyncIOMetrics.InFlightMax) == 3)
    assert(averageOf(df, AsyncIOMetrics.LatencyMean) >= 399)
    assert(averageOf(df, AsyncIOMetrics.LatencyP99) >= 399)
  }

  test("explain shows the operator's options") {
    val text = nodeOf(asyncIO[Repeat](rows = 1)()).toString
    assert(text.contains("AsyncIO test, form=jvm, ordered=true, capacity=10, on_error=raise"))
  }

  private def asyncIO[F](rows: Long)(change: ObjectNode => Unit = _ => ())(implicit
      function: reflect.ClassTag[F]
  ): DataFrame =
    SpecBuilder.asyncIO(spark.range(0, rows, 1, 1).toDF(), function.runtimeClass, "x long")(change)

  private def nodeOf(df: DataFrame): AsyncIOExec =
    collectFirst(df.queryExecution.executedPlan) { case node: AsyncIOExec => node }.get

  private def metricsOf(df: DataFrame): Map[String, Long] =
    nodeOf(df).metrics.map { case (name, metric) => name -> metric.value }

  /** Average metrics hold ten times their value. */
  private def averageOf(df: DataFrame, name: String): Double = metricsOf(df)(name) / 10.0
}
