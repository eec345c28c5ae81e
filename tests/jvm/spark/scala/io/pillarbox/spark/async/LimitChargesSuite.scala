package io.pillarbox.spark.async

import java.util

import io.pillarbox.spark.task.ReportedException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Cast, EvalMode, Literal}
import org.apache.spark.sql.types.{DataType, DoubleType, StringType}
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

  private def byFunction(permits: Double) =
    tokens("").copy(
      rate = Some(RateSpec(permits, 60000)),
      estimateSql = None,
      estimateFunction = Some("size")
    )

  test("what functions have returned for rows is summed up, and what they have raised is the row's error") {
    val kind = DataType.fromDDL("amounts struct<a double, b double>, what string, traceback string")
    val column = BoundReference(0, kind, nullable = true)
    val limits = Seq(byFunction(100), tokens("n"), byFunction(1000))
    val charges = new LimitCharges("f", limits, Seq(column, Literal(7.0), column))
    def returned(amounts: Double*) =
      InternalRow(InternalRow(InternalRow.fromSeq(amounts), null, null))
    val raised = InternalRow(
      InternalRow(null, UTF8String.fromString("size raised it"), UTF8String.fromString("in size"))
    )
    assert(charges(util.List.of(returned(1, 2), returned(30, 40))).toSeq == Seq(31.0, 14.0, 42.0))
    val problem = intercept[ReportedException](charges(util.List.of(returned(1, 2), raised)))
    assert(problem.report.condition == "ESTIMATE_FUNCTION_FAILED")
    assert(problem.report.text.contains("but size raised it"))
    assert(problem.report.traceback == "in size")
  }

  test("what functions return later takes its place among the charges, and is compared with the limit") {
    val column =
      Literal.create(
        null,
        DataType.fromDDL("amounts struct<a double, b double>, what string, traceback string")
      )
    val limits = Seq(byFunction(100), tokens("n"), byFunction(1000))
    val charges = new LimitCharges("f", limits, Seq(column, Literal(7.0), column))
    val known = charges(util.List.of(InternalRow.empty))
    assert(known(0).isNaN && known(1) == 7.0 && known(2).isNaN)
    assert(charges.functions == 2)
    assert(charges.withReturned(known, Array(99.0, 3.0)).toSeq == Seq(99.0, 7.0, 3.0))
    val problem = intercept[ReportedException](charges.withReturned(known, Array(101.0, 3.0)))
    assert(problem.report.condition == "ESTIMATE_ABOVE_LIMIT")
    assert(known(0).isNaN)
  }
}
