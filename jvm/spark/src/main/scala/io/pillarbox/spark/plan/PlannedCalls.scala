package io.pillarbox.spark.plan

import io.pillarbox.spark.async.AsyncIOSpec
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.pillarbox.SparkAdapter

/** The operators that make calls in the plan of a DataFrame. On the driver. */
private[pillarbox] object PlannedCalls {

  /** A node that makes calls, by itself or in its workers. */
  object MadeBy {
    def unapply(plan: LogicalPlan): Option[AsyncIOSpec] = plan match {
      case node: AsyncIO => Some(node.spec)
      case node: KeyedProcess => node.calls
      case _ => None
    }
  }

  /** Returns the specs, also those in subqueries and expressions. */
  def in(df: DataFrame): Seq[AsyncIOSpec] =
    SparkAdapter
      .analyzedPlan(df)
      .collectWithSubqueries {
        case MadeBy(spec) => Seq(spec)
        case node =>
          node.expressions.flatMap(_.collect { case udf: PythonUDF => MarkedUdf.unapply(udf).toSeq }.flatten)
      }
      .flatten
}
