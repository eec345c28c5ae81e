package io.pillarbox.spark.plan

import scala.annotation.tailrec

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.pillarbox.MicroBatches

/**
 * Which columns of their rows a query uses after operators with carry-over: by the query as it is written,
 * since rows outlive the plan of a micro-batch, and that of the next one may use others of them.
 */
private[plan] object UsedColumns {
  private val Used = TreeNodeTag[Map[String, AttributeSet]]("pillarbox.usedColumns")

  /** On the thread of the query, which is about to plan a micro-batch; elsewhere all columns of the input. */
  def after(node: AsyncIO, session: SparkSession): Seq[Attribute] = {
    val used = MicroBatches.beingPlanned(session).flatMap(batch => all(batch.plan).get(node.operatorId))
    node.child.output.filter(column => used.forall(_.contains(column)))
  }

  private def all(query: LogicalPlan): Map[String, AttributeSet] = query.getTagValue(Used).getOrElse {
    val found = find(query)
    query.setTagValue(Used, found)
    found
  }

  private def find(query: LogicalPlan): Map[String, AttributeSet] = {
    val operators = query.collect { case node: AsyncIO if node.spec.carryOver.isDefined => node.operatorId }
    operators.distinct.map(operator => operator -> usedAfter(query, operator)).toMap
  }

  /** Lets Spark prune the input of an operator as if that used nothing. It may be in the query twice. */
  private def usedAfter(query: LogicalPlan, operator: String): AttributeSet = {
    val plain = query.clone().transform {
      case node: AsyncIO if node.operatorId == operator =>
        usingNothing(node.copy(spec = node.spec.withoutCarryOver))
      case node: AsyncIO => node.copy(spec = node.spec.withoutCarryOver)
    }
    AttributeSet.fromAttributeSets(
      pruned(plain).collect { case node: AsyncIO if node.operatorId == operator => node.child.outputSet }
    )
  }

  private def usingNothing(node: AsyncIO): AsyncIO =
    node.copy(inputs = Nil, keys = Nil, by = Nil, estimates = Nil, limitKeys = Nil)

  @tailrec
  private def pruned(plan: LogicalPlan, rounds: Int = 100): LogicalPlan = {
    val next = ColumnPruning(plan)
    if (rounds == 0 || next.fastEquals(plan)) next else pruned(next, rounds - 1)
  }
}
