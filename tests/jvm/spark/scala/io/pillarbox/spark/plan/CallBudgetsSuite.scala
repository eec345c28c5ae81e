package io.pillarbox.spark.plan

import io.pillarbox.spark.functions.Metered
import io.pillarbox.spark.{LocalSpark, SpecBuilder}
import org.scalatest.funsuite.AnyFunSuite

class CallBudgetsSuite extends AnyFunSuite with LocalSpark {

  /** A process in local mode goes on to another application, and keeps budgets by their keys for a while. */
  test("the key of a named budget is of one application, for all its actions") {
    val df = SpecBuilder.asyncIO(spark.range(3).toDF(), classOf[Metered], "x long") { spec =>
      spec.putArray("units").add("tokens").add("usd")
      spec.putObject("budget").put("raises", false).put("name", "nightly").put("max_calls", 10L): Unit
    }
    val node = df.queryExecution.logical.collectFirst { case node: AsyncIO => node }.get
    val keys = (1 to 2).map(_ => CallBudgets.open(node.spec, spark, None).get)
    assert(keys.distinct.size == 1)
    assert(keys.head.contains("nightly") && keys.head.contains(spark.sparkContext.applicationId))
  }
}
