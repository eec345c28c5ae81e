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

  test("of ages the largest counts") {
    val ages = Seq(3L, 7L, 5L)
    val shown = ages.map(age => OperatorFigure.follow("aged", Nil, Nil, Seq("age" -> (() => age))))
    val all = OperatorFigure.of("aged", "age")
    assert(all.getValue == 7)
    shown.foreach(_.close())
    assert(all.getValue == 0)
  }

  test("gauges that nobody has used for long make room for others") {
    spark.sparkContext
    (0 to 2500).foreach(i => OperatorFigure.of(s"batch $i", "rows"))
    val gauges = SparkEnv.get.metricsSystem.getSourcesByName("pillarbox").head.metricRegistry.getGauges
    assert(gauges.size <= 2000 && gauges.containsKey("batch_2500.rows"))
  }

  test("figures are gauges of the source pillarbox, by names that any sink takes") {
    spark.sparkContext
    OperatorFigure.of("größe (x.y)", "rows").add(3)
    val Seq(source) = SparkEnv.get.metricsSystem.getSourcesByName("pillarbox")
    assert(source.metricRegistry.getGauges.get("gr__e__x_y_.rows").getValue == 3L)
  }
}
