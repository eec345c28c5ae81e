package io.pillarbox.spark.async

import java.util

import scala.util.control.NonFatal

import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.task.ReportedException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeProjection}

/**
 * The amounts that limits charge a call with before it begins: for each limit the sum over the rows of the
 * call, or NaN for the mean of what calls have reported. Single-threaded.
 *
 * It throws an error of the row, or rows, if an estimate is no amount, or more than the limit ever allows.
 *
 * @param limits those of the gate, in its order
 * @param estimates doubles over the rows that come in, of the limits that have an expression, in their order
 */
private[async] final class LimitCharges(operator: String, limits: Seq[LimitSpec], estimates: Seq[Expression])
    extends (util.List[InternalRow] => Array[Double]) {

  private val projections = estimates.iterator.map(estimate => UnsafeProjection.create(Seq(estimate)))
  private val ofRow: Array[InternalRow => Double] = limits
    .map(limit =>
      limit.estimateSql.fold[InternalRow => Double](_ => limit.estimate.getOrElse(Double.NaN))(
        amountOf(_, projections.next())
      )
    )
    .toArray
  private val most = limits.map(_.rate.fold(Double.PositiveInfinity)(_.permits)).toArray

  override def apply(rows: util.List[InternalRow]): Array[Double] = {
    val sums = new Array[Double](limits.size)
    rows.forEach { row =>
      limits.indices.foreach(i => if (limits(i).isOfUse) sums(i) += ofRow(i)(row))
    }
    limits.indices.foreach(i => if (sums(i) > most(i)) throw aboveLimit(limits(i), sums(i), rows.size))
    sums
  }

  private def amountOf(sql: String, estimate: UnsafeProjection)(row: InternalRow): Double = {
    val values =
      try estimate(row)
      catch { case NonFatal(problem) => noAmount(sql, s"an error, ${shown(problem)}") }
    if (values.isNullAt(0)) noAmount(sql, "null") else checked(sql, values.getDouble(0))
  }

  private def shown(problem: Throwable): String =
    problem.toString.linesIterator.nextOption().getOrElse("").stripSuffix(".")

  private def checked(sql: String, amount: Double): Double =
    if (amount >= 0 && !amount.isInfinite) amount else noAmount(sql, amount.toString)

  private def noAmount(sql: String, value: String): Nothing = throw new ReportedException(
    FailureReport.of("ESTIMATE_NO_AMOUNT", operator, "expression" -> sql, "value" -> value)
  )

  private def aboveLimit(limit: LimitSpec, amount: Double, rows: Int) = new ReportedException(
    FailureReport.of(
      "ESTIMATE_ABOVE_LIMIT",
      operator,
      "rows" -> (if (rows == 1) "this row" else s"these $rows rows together"),
      "unit" -> limit.unit,
      "amount" -> AsyncIOSpec.shown(amount),
      "limit" -> limit.rate.fold("")(_.summary)
    )
  )
}
