package io.pillarbox.spark.plan

import io.pillarbox.spark.async.AsyncIOSpec
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions.PythonUDF
import org.apache.spark.sql.pillarbox.SparkAdapter

/** The operators that make calls in the plan of a DataFrame. On the driver. */
private[pillarbox] object PlannedCalls {

  /** Returns the specs, also those in subqueries and expressions. */
  def in(df: DataFrame): Seq[AsyncIOSpec] =
    SparkAdapter
      .analyzedPlan(df)
      .collectWithSubqueries {
        case node: AsyncIO => Seq(node.spec)
        case node =>
          node.expressions.flatMap(_.collect { case udf: PythonUDF => MarkedUdf.unapply(udf).toSeq }.flatten)
      }
      .flatten
}
