package io.pillarbox.spark.plan

import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, RangePartitioning, RoundRobinPartitioning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.adaptive.QueryStageExec
import org.apache.spark.sql.execution.exchange.{Exchange, REPARTITION_BY_NUM, ShuffleExchangeExec}
import org.apache.spark.sql.execution.joins.CartesianProductExec
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

/**
 * Writes the rows of calls to a shuffle where Spark would compute them several times in one action: a sort of all
 * rows reads a sample of them first, and a product reads each side for each partition of the other.
 *
 * It is a rule for columnar plans, since these run in the end, with AQE in each stage and without it.
 */
private[pillarbox] object CallsOnce extends ColumnarRule {

  override def preColumnarTransitions: Rule[SparkPlan] = Shuffled

  private object Shuffled extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
      case sort: ShuffleExchangeExec if isSampled(sort.outputPartitioning) && makesCalls(sort.child) =>
        sort.mapChildren(shuffled)
      case product: CartesianProductExec =>
        product.mapChildren(side => if (makesCalls(side)) shuffled(side) else side)
    }

    private def isSampled(partitioning: Partitioning): Boolean = partitioning match {
      case range: RangePartitioning => range.numPartitions > 1
      case _ => false
    }

    private def shuffled(rows: SparkPlan): SparkPlan =
      ShuffleExchangeExec(RoundRobinPartitioning(conf.numShufflePartitions), rows, REPARTITION_BY_NUM)
  }

  /** True if running the plan makes calls again; what a shuffle has written is read again only. */
  private def makesCalls(plan: SparkPlan): Boolean = plan match {
    case _: Exchange | _: QueryStageExec => false
    case _: AsyncIOExec | _: CarryOverExec => true
    case keyed: KeyedProcessBatchExec if keyed.node.calls.isDefined => true
    case keyed: KeyedProcessExec if keyed.node.calls.isDefined => true
    case other => other.children.exists(makesCalls)
  }
}
