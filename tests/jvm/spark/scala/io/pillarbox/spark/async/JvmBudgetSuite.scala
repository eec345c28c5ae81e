package io.pillarbox.spark.async

import io.pillarbox.spark.functions.Metered
import io.pillarbox.spark.{LocalSpark, SpecBuilder}
import org.apache.spark.sql.DataFrame
import org.scalatest.funsuite.AnyFunSuite

/** Budgets of functions of the JVM. */
class JvmBudgetSuite extends AnyFunSuite with LocalSpark {

  private def metered(amount: String, most: Double): DataFrame =
    SpecBuilder.asyncIO(spark.range(0, 100, 1, 3).toDF(), classOf[Metered], "x long") { spec =>
      spec.put("on_error", "column").putArray("units").add("tokens").add("usd")
      val budget = spec.putObject("budget").put("raises", false)
      if (amount == "calls") budget.put("max_calls", most.toLong)
      else budget.putObject("max_usage").put(amount, most)
      ()
    }

  private def answers(df: DataFrame): Long = df.where("error is null").count()

  test("calls stop at the budget over all tasks, and each action has its own") {
    val df = metered("calls", 30)
    assert(answers(df) == 30 && answers(df) == 30)
    assert(df.select("error.kind").distinct().count() == 2)
  }

  test("what calls report bounds them") {
    // Each uses half a dollar. Until that is known, those that are under way count less.
    val made = answers(metered("usd", 10))
    assert(made >= 20 && made <= 20 + 6)
  }
}
