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
  private val Used = TreeNodeTag[Map[String, Use]]("pillarbox.usedColumns")

  private final case class Use(input: Seq[String], places: Set[Int])

  /**
   * Returns their places in the operator's input. On the thread of the query, which is about to plan a
   * micro-batch; elsewhere all.
   */
  def after(node: AsyncIO, session: SparkSession): Set[Int] =
    MicroBatches.beingPlanned(session).fold(everything(node))(batch => in(batch.plan, node))

  /** The same in a given query; all where the planned node has other columns than in the query. */
  def in(query: LogicalPlan, node: AsyncIO): Set[Int] =
    all(query).get(node.operatorId).filter(_.input == inputOf(node)).fold(everything(node))(_.places)

  private def everything(node: AsyncIO) = node.child.output.indices.toSet

  private def inputOf(node: AsyncIO): Seq[String] = node.child.output.map(_.name)

  private def all(query: LogicalPlan): Map[String, Use] = query.getTagValue(Used).getOrElse {
    val found = find(query)
    query.setTagValue(Used, found)
    found
  }

  /** An operator may be in the query twice, and then uses what either of them does. */
  private def find(query: LogicalPlan): Map[String, Use] =
    query
      .collect { case node: AsyncIO if node.spec.carryOver.isDefined => node }
      .groupBy(_.operatorId)
      .map { case (operator, nodes) =>
        val used = usedAfter(query, operator)
        operator -> Use(inputOf(nodes.head), nodes.flatMap(placesIn(used, _)).toSet)
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
