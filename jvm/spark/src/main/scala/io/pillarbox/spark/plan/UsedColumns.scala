package io.pillarbox.spark.plan

import scala.annotation.tailrec

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.AttributeSet
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.pillarbox.MicroBatches

/**
 * Which columns of their rows a query uses after operators with carry-over: by the query as it is written,
 * since rows outlive the plan of a micro-batch, and that of the next one may use others of them. Columns are known
 * by their places, since the optimizer may give them other ids.
 */
private[plan] object UsedColumns {
  private val Used = TreeNodeTag[Map[String, Set[Int]]]("pillarbox.usedColumns")

  /**
   * Returns their places in the operator's input. On the thread of the query, which is about to plan a
   * micro-batch; elsewhere all.
   */
  def after(node: AsyncIO, session: SparkSession): Set[Int] =
    MicroBatches
      .beingPlanned(session)
      .flatMap(batch => all(batch.plan).get(node.operatorId))
      .getOrElse(node.child.output.indices.toSet)

  private def all(query: LogicalPlan): Map[String, Set[Int]] = query.getTagValue(Used).getOrElse {
    val found = find(query)
    query.setTagValue(Used, found)
    found
  }

  /** An operator may be in the query twice, and then uses what either of them does. */
  private def find(query: LogicalPlan): Map[String, Set[Int]] =
    query
      .collect { case node: AsyncIO if node.spec.carryOver.isDefined => node }
      .groupBy(_.operatorId)
      .map { case (operator, nodes) =>
        val used = usedAfter(query, operator)
        operator -> nodes.flatMap(placesIn(used, _)).toSet
      }

  private def placesIn(used: AttributeSet, node: AsyncIO): Seq[Int] =
    node.child.output.zipWithIndex.collect { case (column, place) if used.contains(column) => place }

  /** Lets Spark prune the input of an operator as if that used nothing. */
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
