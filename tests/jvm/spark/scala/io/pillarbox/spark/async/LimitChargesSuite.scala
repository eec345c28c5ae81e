package io.pillarbox.spark.async

import java.util

import io.pillarbox.spark.task.ReportedException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.expressions.{BoundReference, LeafExpression}
import org.apache.spark.sql.types.{DataType, DoubleType}
import org.scalatest.funsuite.AnyFunSuite

class LimitChargesSuite extends AnyFunSuite {
  private def tokens(sql: String) = LimitSpec(
    None,
    Some(RateSpec(100, 60000)),
    LimitScope.Executor,
    unit = "tokens",
    estimateSql = Some(sql)
  )

  private val calls = LimitSpec(Some(5), None, LimitScope.Executor)

  test("an estimate that throws is an error that names the expression and the reason") {
    val estimates = Seq(BoundReference(0, DoubleType, nullable = true), new FailsAboveTen)
    val charges = new LimitCharges("async_io(f)", Seq(tokens("n"), calls, tokens("1 / n")), estimates)
    assert(charges(util.List.of(InternalRow(4.0), InternalRow(5.0))).toSeq == Seq(9.0, 0.0, 2.0))
    val problem = intercept[ReportedException](charges(util.List.of(InternalRow(11.0))))
    assert(problem.report.kind == "ESTIMATE_NO_AMOUNT")
    Seq("but 1 / n is an error", "/ by zero").foreach(text => assert(problem.getMessage.contains(text)))
  }
}

/** Stands for an expression of ANSI SQL. */
private final class FailsAboveTen extends LeafExpression with CodegenFallback {
  override def eval(row: InternalRow): Any =
    if (row.getDouble(0) > 10) throw new ArithmeticException("/ by zero") else 1.0
  override def nullable: Boolean = false
  override def dataType: DataType = DoubleType
  override def productArity: Int = 0
  override def productElement(at: Int): Any = throw new IndexOutOfBoundsException(at)
  override def canEqual(other: Any): Boolean = other.isInstanceOf[FailsAboveTen]
}
