package io.pillarbox.spark.task

import io.pillarbox.spark.LocalSpark
import org.apache.spark.SparkEnv
import org.scalatest.funsuite.AnyFunSuite

class OperatorFigureSuite extends AnyFunSuite with LocalSpark {

  test("counts of tasks that have ended stay, and what was there at the moment goes with them") {
    var calls, inFlight = 0L
    def follow() =
      OperatorFigure.follow("counted", Seq("calls" -> (() => calls)), Seq("now" -> (() => inFlight)))
    val all = OperatorFigure.of("counted", "calls")
    val now = OperatorFigure.of("counted", "now")
    val (first, second) = (follow(), follow())
    calls = 5
    inFlight = 2
    assert(all.getValue == 10 && now.getValue == 4)
    first.close()
    first.close()
    assert(all.getValue == 10 && now.getValue == 2)
    calls = 6
    second.close()
    assert(all.getValue == 11 && now.getValue == 0)
  }

  test("figures are gauges of the source pillarbox, by names that any sink takes") {
    spark.sparkContext
    OperatorFigure.of("größe (x.y)", "rows").add(3)
    val Seq(source) = SparkEnv.get.metricsSystem.getSourcesByName("pillarbox")
    assert(source.metricRegistry.getGauges.get("gr__e__x_y_.rows").getValue == 3L)
  }
}
