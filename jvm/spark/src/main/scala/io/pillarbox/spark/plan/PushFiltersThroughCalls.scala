package io.pillarbox.spark.plan

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.{FILTER, PYTHON_UDF}
import org.apache.spark.sql.execution.python.ExtractPythonUDFFromAggregate

/**
 * Moves filters below the calls whose results they don't read, as Spark does with deterministic columns: a row
 * that the query drops is not called for. A filter on a result stays where it is.
 */
private[pillarbox] object PushFiltersThroughCalls extends Rule[LogicalPlan] with PredicateHelper {

  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.transformWithPruning(_.containsAllPatterns(FILTER, PYTHON_UDF)) {
      case filter @ Filter(_, project: Project) => pushed(filter, project).getOrElse(filter)
      // Spark's `CollapseProject` puts calls over groups into the aggregate.
      case filter @ Filter(_, aggregate: Aggregate)
          if !aggregate.aggregateExpressions.forall(_.deterministic) =>
        ExtractPythonUDFFromAggregate(aggregate) match {
          case project: Project => pushed(filter, project).getOrElse(filter)
          case _ => filter
        }
    }

  private def pushed(filter: Filter, project: Project): Option[LogicalPlan] = {
    val (calls, columns) = project.projectList.partition(!_.deterministic)
    if (calls.isEmpty || !calls.forall(isCall)) None
    else {
      val computed = getAliasMap(columns)
      def below(condition: Expression) = replaceAlias(condition, computed)
      val (down, up) = splitConjunctivePredicates(filter.condition).partition { condition =>
        condition.deterministic && below(condition).references.subsetOf(project.child.outputSet) &&
        !usesUdf(condition, computed) && !readsInSubquery(condition, project.child)
      }
      down.map(below).reduceOption(And).map { condition =>
        val moved = project.copy(child = Filter(condition, project.child))
        up.reduceOption(And).fold[LogicalPlan](moved)(Filter(_, moved))
      }
    }
  }

  private def isCall(column: NamedExpression): Boolean = column match {
    case Alias(udf: PythonUDF, _) => MarkedUdf.isMovable(udf)
    case _ => false
  }

  /** True if the condition would run a UDF of Spark a second time. */
  private def usesUdf(condition: Expression, computed: AttributeMap[Alias]): Boolean =
    condition.references.exists(computed.get(_).exists(_.containsPattern(PYTHON_UDF)))

  /** True if a subquery has the columns of `plan`, which then mean another thing in the condition. */
  private def readsInSubquery(condition: Expression, plan: LogicalPlan): Boolean = condition.exists {
    case subquery: SubqueryExpression => subquery.plan.outputSet.intersect(plan.outputSet).nonEmpty
    case _ => false
  }
}
