package io.pillarbox.spark.async

import java.util

import io.pillarbox.spark.task.ReportedException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast, EvalMode}
import org.apache.spark.sql.types.{DoubleType, StringType}
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

class LimitChargesSuite extends AnyFunSuite {
  private val calls = LimitSpec(Some(5), None, LimitScope.Executor)

  private def tokens(sql: String) = LimitSpec(
    None,
    Some(RateSpec(100, 60000)),
    LimitScope.Executor,
    unit = "tokens",
    estimateSql = Some(sql)
  )

  private def row(n: Double, text: String) = InternalRow(n, UTF8String.fromString(text))

  test("an estimate that throws is an error that names the expression and the reason") {
    val text = BoundReference(1, StringType, nullable = true)
    val estimates =
      Seq(BoundReference(0, DoubleType, nullable = true), Cast(text, DoubleType, None, EvalMode.ANSI))
    val charges = new LimitCharges("f", Seq(tokens("n"), calls, tokens("double(text)")), estimates)
    assert(charges(util.List.of(row(4, "1"), row(5, "1"))).toSeq == Seq(9.0, 0.0, 2.0))
    val problem = intercept[ReportedException](charges(util.List.of(row(4, "many"))))
    assert(problem.report.kind == "ESTIMATE_NO_AMOUNT")
    Seq("but double(text) is an error", "many", "CAST_INVALID_INPUT")
      .foreach(part => assert(problem.getMessage.contains(part)))
  }
}
