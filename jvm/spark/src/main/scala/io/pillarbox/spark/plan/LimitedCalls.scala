package io.pillarbox.spark.plan

import io.pillarbox.async.CallFigures
import org.apache.spark.sql.catalyst.expressions.{IntegerLiteral, Literal}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.LIMIT

/**
 * Lets a limit of rows, as `limit(3)`, `show(3)` and `head()` have one, limit the calls that are started, too.
 *
 * Only projections, UDFs in Python and other calls may be in between, which give a row for a row. A call that
 * gives one row for a row gets no more rows than the limit. One that gives none or many may need more, so it
 * has that many in flight, with those that are done and wait for their turn.
 */
private[pillarbox] object LimitedCalls extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.transformDownWithPruning(_.containsPattern(LIMIT)) {
      case limit @ LocalLimit(IntegerLiteral(rows), child) => limit.copy(child = limited(child, rows))
    }

  private def limited(plan: LogicalPlan, rows: Int): LogicalPlan = plan match {
    case project: Project => project.copy(child = limited(project.child, rows))
    case udf if udf.isInstanceOf[BaseEvalPython] =>
      udf.withNewChildren(udf.children.map(limited(_, rows)))
    case node: AsyncIO if node.isStreaming || rows == 0 => node
    case node: AsyncIO if node.spec.explode || node.spec.form == "jvm" => narrowed(node, rows)
    case node: AsyncIO if node.child.maxRowsPerPartition.forall(_ > rows) =>
      node.copy(child = LocalLimit(Literal(rows), node.child))
    case other => other
  }

  /** A call of a list takes a list all the same. */
  private def narrowed(node: AsyncIO, rows: Int): AsyncIO = {
    val figures = node.spec.figures
    val wanted = math.max(rows, figures.batching.fold(1)(_.size))
    if (figures.capacity > wanted) withFigures(node, figures.copy(capacity = wanted, maxWaiting = 0))
    else if (figures.maxWaiting > wanted) withFigures(node, figures.copy(maxWaiting = wanted))
    else node
  }

  private def withFigures(node: AsyncIO, figures: CallFigures): AsyncIO =
    node.copy(spec = node.spec.copy(figures = figures))
}
