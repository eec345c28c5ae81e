package org.apache.spark.sql.pillarbox

import org.apache.arrow.memory.BufferAllocator
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.QuotingUtils
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.ArrowUtils
import org.apache.spark.sql.{DataFrame, ExperimentalMethods, SparkSession, classic}

/** The `private[sql]` calls that the plan nodes need, besides Python workers. Written for Spark 4.2. */
object SparkAdapter {

  /** A DataFrame over `plan`, analysed at once, so that errors show where the user wrote the call. */
  def ofRows(like: DataFrame, plan: LogicalPlan): DataFrame =
    classic.Dataset.ofRows(classicOf(like).sparkSession, plan)

  /** The session's hooks for strategies of others. */
  def experimental(session: SparkSession): ExperimentalMethods = session match {
    case local: classic.SparkSession => local.experimental
    case other =>
      throw new UnsupportedOperationException(
        s"The JVM engine needs a classic session, found ${other.getClass.getName}."
      )
  }

  /** The analysed plan of a DataFrame. */
  def analyzedPlan(df: DataFrame): LogicalPlan = classicOf(df).queryExecution.analyzed

  /**
   * The column called `name`, by the session's rules of case.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if there is none, or more than one
   */
  def resolve(df: DataFrame, name: String): Attribute =
    classicOf(df).resolve(QuotingUtils.quoteIdentifier(name)) match {
      case attribute: Attribute => attribute
      case other => throw new IllegalArgumentException(s"inputs takes columns, found ${other.sql}")
    }

  /** @throws UnsupportedOperationException for a Spark Connect DataFrame, which has no plan here */
  def classicOf(df: DataFrame): classic.DataFrame = df match {
    case local: classic.Dataset[_] => local.asInstanceOf[classic.DataFrame]
    case other =>
      throw new UnsupportedOperationException(
        s"The JVM engine needs a classic DataFrame, found ${other.getClass.getName}. " +
          "On Spark Connect use engine=\"python\"."
      )
  }

  def arrowSchema(schema: StructType, timeZone: String, largeVarTypes: Boolean): Schema =
    ArrowUtils.toArrowSchema(schema, timeZone, errorOnDuplicatedFieldNames = false, largeVarTypes)

  def arrowAllocator(name: String): BufferAllocator =
    ArrowUtils.rootAllocator.newChildAllocator(name, 0, Long.MaxValue)
}
