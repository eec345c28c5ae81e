package io.pillarbox.spark.plan

import io.pillarbox.spark.async.{AsyncIOFunction, AsyncIOSpec, CallColumns}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.types.DataTypeUtils

/**
 * Calls an asynchronous function for each row and adds its results as columns.
 *
 * Not a deterministic node, and the optimiser does not know it: no filter is pushed below it, so a row that
 * the query filters afterwards is still called. Columns that nobody needs are pruned below it.
 *
 * @param inputs
 *   the child's columns that the function is given
 * @param keys
 *   the child's columns that name a call; none where calls have no keys
 * @param by
 *   the columns by which rows are put into partitions; none: they stay where they are
 * @param results
 *   the columns that it adds
 */
private[pillarbox] final case class AsyncIO(
    spec: AsyncIOSpec,
    function: AsyncIOFunction,
    inputs: Seq[Attribute],
    keys: Seq[Attribute],
    by: Seq[Attribute],
    results: Seq[Attribute],
    child: LogicalPlan
) extends UnaryNode {

  def operatorId: String = spec.operatorId

  /** The columns of the operator's rows, where `rows` come in. */
  def columns(rows: Seq[Attribute]): CallColumns = {
    def places(columns: Seq[Attribute]) = columns.map(column => rows.indexWhere(_.exprId == column.exprId))
    CallColumns(
      DataTypeUtils.fromAttributes(rows),
      places(inputs),
      places(keys),
      places(by),
      DataTypeUtils.fromAttributes(results)
    )
  }

  /** For the physical node, which Spark's tasks may take along: without the plan below it. */
  def alone: AsyncIO = copy(child = LocalRelation(child.output))

  override def output: Seq[Attribute] = child.output ++ results

  override def producedAttributes: AttributeSet = AttributeSet(results)

  override def references: AttributeSet = AttributeSet(inputs ++ keys ++ by)

  override protected def stringArgs: Iterator[Any] = spec.summary.iterator

  override protected def withNewChildInternal(newChild: LogicalPlan): AsyncIO = copy(child = newChild)
}
