package io.pillarbox.spark.plan

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.{ClusteredDistribution, SinglePartition}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.exchange.Exchange

/**
 * The partitions of a shuffle for calls. Each has a task with a capacity of its own, so their number is that of
 * calls in flight, whatever the bytes of the rows: AQE must not read several of them in one task. It keeps what
 * it finds where the plan would no longer be as the operators require.
 */
private[plan] object ShuffleWidth {

  /** Returns what an operator requires that makes calls for the rows of `child`, gathered by `keys`. */
  def kept(keys: Seq[Expression], child: SparkPlan): ClusteredDistribution =
    ClusteredDistribution(keys, requiredNumPartitions = written(child))

  /**
   * The number of partitions that the shuffle has written, once it has, whose partitions `plan` still has. Joins
   * and others with several children require as many partitions of each.
   */
  private def written(plan: SparkPlan): Option[Int] = plan match {
    case AQEShuffleReadExec(stage: ShuffleQueryStageExec, _) => Some(stage.shuffle.numPartitions)
    case _: Exchange => None
    case _ if plan.outputPartitioning == SinglePartition => None
    case _ => plan.children.flatMap(written(_)).headOption
  }
}
