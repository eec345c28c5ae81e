package org.apache.spark.sql.pillarbox

import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.{MapPartitionsExec, ProjectExec, SparkPlan}

/**
 * Adapter to real-time mode, which runs only a list of Spark's own operators. `mapPartitions` is one of them,
 * so a function over the rows of a partition is planned as one, and passes the check of all others. An
 * operator with state has to be known as one by the query, so no operator of the list can stand for it. Written
 * for Spark 4.3.
 */
object RealTimeMode {

  /** True if the plan has a source that is read in real-time mode. */
  def reaches(plan: LogicalPlan): Boolean = plan.exists {
    case scan: StreamingDataSourceV2ScanRelation => Spark41.isRealTime(scan)
    case _ => false
  }

  /** True if Spark runs operators with state in this mode: brings rows together by key without a batch's end. */
  def runsState: Boolean = Spark43.runsStateInRealTime

  /** The setting of Spark's check of operators and sinks, false for an operator that is not in its list. */
  final val AllowlistCheck = "spark.sql.streaming.realTimeMode.allowlistCheck"

  /**
   * Checks the sink and the operators of the micro-batch that the calling thread runs in the place of Spark,
   * but for operators that `isOurs`, each with one child.
   *
   * @throws IllegalArgumentException, Spark's own, if others are not in its lists
   */
  def checkOthers(context: SparkContext)(isOurs: SparkPlan => Boolean): Unit =
    Spark43.checkRealTimeQuery(context)(isOurs)

  /**
   * Returns a plan that runs `function` on the rows of `child`, and shows it as `shown`.
   *
   * @param output the columns of the rows that the function returns
   */
  def mapPartitions(child: SparkPlan, output: Seq[Attribute], shown: String)(
      function: Iterator[InternalRow] => Iterator[InternalRow]
  ): SparkPlan = {
    // The object of a row, on both sides of the function, is the row itself, as a struct.
    val packed = ProjectExec(Seq(Alias(CreateStruct(child.output), Packed)()), child)
    val result = AttributeReference(Packed, DataTypeUtils.fromAttributes(output), nullable = false)()
    val columns = output.zipWithIndex.map { case (column, i) =>
      Alias(GetStructField(result, i), column.name)(column.exprId, column.qualifier, Some(column.metadata))
    }
    ProjectExec(columns, MapPartitionsExec(new OfObjects(function, shown), result, packed))
  }

  private final val Packed = "row"

  private final class OfObjects(function: Iterator[InternalRow] => Iterator[InternalRow], shown: String)
      extends (Iterator[Any] => Iterator[Any])
      with Serializable {
    override def apply(rows: Iterator[Any]): Iterator[Any] =
      function(rows.asInstanceOf[Iterator[InternalRow]])
    override def toString: String = shown
  }
}
