package io.pillarbox.spark.plan

import io.pillarbox.spark.async.{AsyncIOFunction, AsyncIOSpec, CallColumns}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression, ExpressionSet}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.StructType

/**
 * Calls an asynchronous function for each row and adds its results as columns.
 *
 * The node is not deterministic, and the optimizer does not know it: no filter is pushed below it, so a row
 * that the query filters afterwards is still called. Columns that nobody needs are pruned below it.
 *
 * @param inputs the child's columns that the function is given
 * @param keys the child's columns that name a call; none where calls have no keys
 * @param by the columns within whose values an order is kept
 * @param results the columns that it adds
 * @param estimates the amounts that limits charge a row with, of those that have an expression
 * @param limitKeys the child's columns that are keys of limits, of each that has one
 */
private[pillarbox] final case class AsyncIO(
    spec: AsyncIOSpec,
    function: AsyncIOFunction,
    inputs: Seq[Attribute],
    keys: Seq[Attribute],
    by: Seq[Attribute],
    results: Seq[Attribute],
    estimates: Seq[Expression],
    limitKeys: Seq[Attribute],
    child: LogicalPlan
) extends UnaryNode {

  def operatorId: String = spec.operatorId

  /** Returns the columns of the operator's rows, for an input of `rows`. */
  def columns(rows: Seq[Attribute]): CallColumns = {
    def places(columns: Seq[Attribute]) = columns.map(column => rows.indexWhere(_.exprId == column.exprId))
    val (answers, call) = DataTypeUtils.fromAttributes(results).splitAt(results.length - spec.callColumn.size)
    CallColumns(
      DataTypeUtils.fromAttributes(rows),
      places(inputs),
      places(keys),
      places(by),
      StructType(answers),
      call.headOption,
      places(limitKeys)
    )
  }

  /** The columns by which rows are put into partitions; none if they stay where they are. */
  def gathered: Seq[Attribute] = if (by.nonEmpty) by else if (spec.sharesInQuery) keys else Nil

  /** Returns the node without the plan below it, for a physical node that Spark's tasks may take along. */
  def alone: AsyncIO = copy(child = LocalRelation(child.output))

  /** True if rows outlive the plan of their micro-batch: nothing that it knows of columns holds for them. */
  private def carries = spec.carryOver.isDefined

  override def output: Seq[Attribute] =
    (if (carries) SparkAdapter.asNullable(child.output) else child.output) ++ results

  override protected lazy val validConstraints: ExpressionSet =
    if (carries) ExpressionSet() else child.constraints

  override def producedAttributes: AttributeSet = AttributeSet(results)

  /** All columns of rows that are carried over, as a later micro-batch may need them. */
  override def references: AttributeSet = if (carries && isStreaming) child.outputSet
  else
    AttributeSet(inputs ++ keys ++ by ++ limitKeys) ++ AttributeSet.fromAttributeSets(
      estimates.map(_.references)
    )

  override protected def stringArgs: Iterator[Any] = spec.summary.iterator

  override protected def withNewChildInternal(newChild: LogicalPlan): AsyncIO = copy(child = newChild)
}
