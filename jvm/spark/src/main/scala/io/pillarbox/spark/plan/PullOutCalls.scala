package io.pillarbox.spark.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF
import org.apache.spark.sql.execution.python.ExtractPythonUDFFromAggregate

/**
 * Makes each call of `pb.async_udf` a column of a projection below the operator that has it, and not
 * deterministic, as `rand()` is: Spark's optimizer neither copies such a column nor moves it, and prunes it where
 * nobody reads it. So a call is made for the rows that reach its expression, and no others.
 *
 * It runs when a plan was analysed, before the optimizer and the look-up of cached plans: then a function that is
 * not deterministic may be where Spark's analyser refuses one, as in the arguments of an aggregate or in the
 * condition of a join. Calls that a correlated subquery makes of outer columns, and those of columns of both sides
 * of a join, stay where they are.
 */
private[pillarbox] object PullOutCalls extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.containsPattern(PYTHON_UDF)) plan
    else
      plan.transformUpWithSubqueries {
        case aggregate: Aggregate if callsOf(aggregate).nonEmpty =>
          // Calls over what it computes are made after it, one for each group.
          ExtractPythonUDFFromAggregate(aggregate) match {
            case project @ Project(_, below: Aggregate) => pulledOut(project.copy(child = pulledOut(below)))
            case same => pulledOut(same)
          }
        case node: UnaryNode => pulledOut(node)
        case join: Join => pulledOut(join)
      }

  private def pulledOut(node: LogicalPlan): LogicalPlan = {
    val without = separated(node)
    if (without.output == node.output) without else Project(node.output, without)
  }

  /** Returns `node` without the calls that one of its children can make; a nested one goes before its outer one. */
  private def separated(node: LogicalPlan): LogicalPlan = {
    val (children, made) =
      node.children.foldLeft((Seq.empty[LogicalPlan], Map.empty[Expression, Attribute])) {
        case ((children, made), child) =>
          val calls = callsOf(node).filter(_.references.subsetOf(child.outputSet)).distinctBy(identityOf)
          val columns = calls
            .filterNot(call => made.contains(identityOf(call)))
            .map(call => identityOf(call) -> Alias(call.copy(udfDeterministic = false), call.name)())
          val below = if (columns.isEmpty) child else withColumns(columns.map(_._2), child)
          (children :+ below, made ++ columns.map { case (call, column) => call -> column.toAttribute })
      }
    if (made.isEmpty) node
    else
      separated(node.withNewChildren(children).transformExpressions { case call: PythonUDF =>
        made.getOrElse(identityOf(call), call)
      })
  }

  /** The calls in the expressions of a node that have none as arguments. */
  private def callsOf(node: LogicalPlan): Seq[PythonUDF] = node.expressions.flatMap(_.collect {
    case udf: PythonUDF if isCall(udf) && !udf.children.exists(_.exists(isCall)) && !isOuter(udf) => udf
  })

  private def isCall(expression: Expression): Boolean = expression match {
    case udf: PythonUDF => udf.udfDeterministic && MarkedUdf.isMarked(udf)
    case _ => false
  }

  private def isOuter(udf: PythonUDF): Boolean = udf.exists(_.isInstanceOf[OuterReference])

  /** What equal calls of one node have in common. */
  private def identityOf(call: PythonUDF): Expression = if (call.deterministic) call.canonicalized else call

  private def withColumns(columns: Seq[Alias], plan: LogicalPlan): LogicalPlan = plan match {
    // It makes a row for each grouping set of a row.
    case Expand(projections, output, child) if columns.forall(_.references.subsetOf(child.outputSet)) =>
      val added = columns.map(_.toAttribute)
      Expand(projections.map(_ ++ added), output ++ added, withColumns(columns, child))
    case other => Project(other.output ++ columns, other)
  }
}
