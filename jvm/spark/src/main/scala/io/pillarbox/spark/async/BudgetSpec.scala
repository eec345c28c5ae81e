package io.pillarbox.spark.async

import com.fasterxml.jackson.databind.annotation.JsonDeserialize
import io.pillarbox.metered.budget.{BudgetExceeded, BudgetTerms}
import io.pillarbox.spark.base.ErrorCatalogue

/**
 * The amounts that an operator may spend: at least one of them.
 *
 * @param maxCalls the number of attempts that may begin
 * @param maxUsage the most of each unit that calls report
 * @param maxFailedRows the number of rows that may fail
 * @param maxFailedShare the share of the rows that may fail
 * @param raises true if the task fails once it is spent, false if rows fail without a call
 * @param name operators that name it share it
 * @param keep the folder that keeps what is spent, for all runs that name it
 */
private[pillarbox] final case class BudgetSpec(
    @JsonDeserialize(contentAs = classOf[java.lang.Long]) maxCalls: Option[Long],
    @JsonDeserialize(contentAs = classOf[java.lang.Double]) maxUsage: Map[String, Double] = Map.empty,
    @JsonDeserialize(contentAs = classOf[java.lang.Long]) maxFailedRows: Option[Long],
    @JsonDeserialize(contentAs = classOf[java.lang.Double]) maxFailedShare: Option[Double],
    raises: Boolean = true,
    name: Option[String],
    keep: Option[String] = None
) {

  /** The executors' terms have the units in the same order as the driver's. */
  def terms: BudgetTerms = BudgetTerms(
    maxCalls.map(BudgetTerms.Calls -> _.toDouble).toSeq ++ maxUsage.toSeq.sortBy(_._1),
    maxFailedRows,
    maxFailedShare
  )

  private def maxFailed: Option[String] = maxFailedRows.map(_.toString).orElse(maxFailedShare.map(_.toString))

  private def shown(amount: Double) = BigDecimal(amount).bigDecimal.stripTrailingZeros.toPlainString

  private def whatIsSpent(exceeded: BudgetExceeded): (String, String) = {
    import exceeded.{over, spent}
    if (exceeded.isFailedRows)
      "max_failed" -> s"${spent.failed} of ${spent.rows} rows have failed, and max_failed is ${maxFailed.get}"
    else if (terms.isCalls(over)) "max_calls" -> s"max_calls=${maxCalls.get} calls have begun"
    else {
      val (unit, most, used) = (terms.unit(over), shown(terms.mostOf(over)), spent.reported(over))
      val mean = BigDecimal(terms.estimate(over, spent)).round(new java.math.MathContext(3))
      "max_usage" ->
        s"${shown(used)} of $most $unit were reported, and a call uses ${shown(mean.toDouble)} in the mean"
    }
  }

  /** What was wrong and what to do, without the error's name. */
  def text(exceeded: BudgetExceeded): String = if (exceeded.isNotKept) ErrorCatalogue.text(BudgetSpec.NotKept)
  else {
    val (option, what) = whatIsSpent(exceeded)
    ErrorCatalogue.text(
      BudgetSpec.Exceeded,
      "name" -> name.orElse(keep).fold("")(shared => s" '$shared'"),
      "what" -> what,
      "option" -> option
    )
  }
}

private[pillarbox] object BudgetSpec {
  final val Exceeded = "BUDGET_EXCEEDED"
  final val NotKept = "BUDGET_NOT_KEPT"
}
