package io.pillarbox.spark.async

import java.util

import scala.util.control.NonFatal

import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.task.ReportedException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, UnsafeProjection}

/**
 * The amounts that limits charge a call with before it begins: for each limit the sum over the rows of the
 * call, or NaN for the mean of what calls have reported, and for what is told later. Single-threaded.
 *
 * It throws an error of the row, or rows, if an estimate is no amount, or more than the limit ever allows.
 *
 * @param limits those of the call, in their order
 * @param estimates over the rows that come in, of the limits that have one, in their order: a double of an
 *   expression; of a function what it has returned, with its error and traceback, or null
 */
private[async] final class LimitCharges(operator: String, limits: Seq[LimitSpec], estimates: Seq[Expression])
    extends (util.List[InternalRow] => Array[Double]) {

  private val projections = estimates.iterator.map(estimate => UnsafeProjection.create(Seq(estimate)))
  private val ofFunctions = limits.indices.filter(limits(_).estimateFunction.isDefined)
  private val ofRow: Array[InternalRow => Double] = limits.zipWithIndex.map { case (limit, i) =>
    val fixed: InternalRow => Double = _ => limit.estimate.getOrElse(Double.NaN)
    if (limit.estimateSql.isDefined) amountOf(limit.estimateSql.get, projections.next()) _
    else if (limit.estimateFunction.isDefined) returned(ofFunctions.indexOf(i), projections.next()) _
    else fixed
  }.toArray
  private val most = limits.map(_.rate.fold(Double.PositiveInfinity)(_.permits)).toArray

  override def apply(rows: util.List[InternalRow]): Array[Double] = {
    val sums = new Array[Double](limits.size)
    rows.forEach { row =>
      limits.indices.foreach(i => if (limits(i).isOfUse) sums(i) += ofRow(i)(row))
    }
    checked(sums, rows.size)
  }

  private def checked(sums: Array[Double], rows: Int): Array[Double] = {
    limits.indices.foreach(i => if (sums(i) > most(i)) throw aboveLimit(limits(i), sums(i), rows))
    sums
  }

  /** The number of limits whose amounts functions give. */
  def functions: Int = ofFunctions.size

  /** Returns the charges of a row with the amounts that functions have returned for it elsewhere. */
  def withReturned(charges: Array[Double], amounts: Array[Double]): Array[Double] = {
    val sums = charges.clone()
    ofFunctions.zip(amounts).foreach { case (i, amount) => sums(i) = amount }
    checked(sums, rows = 1)
  }

  private def returned(place: Int, column: UnsafeProjection)(row: InternalRow): Double = {
    val values = column(row)
    if (values.isNullAt(0)) Double.NaN
    else {
      val told = values.getStruct(0, 3)
      if (told.isNullAt(0)) throw functionFailed(told.getString(1), told.getString(2))
      told.getStruct(0, functions).getDouble(place)
    }
  }

  private def functionFailed(what: String, traceback: String) = new ReportedException(
    FailureReport.of("ESTIMATE_FUNCTION_FAILED", operator, "what" -> what).copy(traceback = traceback)
  )

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
