package io.pillarbox.spark.plan

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.ClusteredDistribution
import org.apache.spark.sql.execution.adaptive.{AQEShuffleReadExec, ShuffleQueryStageExec}
import org.apache.spark.sql.execution.{SortExec, SparkPlan}

/**
 * The partitions of a shuffle for calls. Each has a task with a capacity of its own, so their number is that of
 * calls in flight, whatever the bytes of the rows: AQE must not read several of them in one task. It keeps what
 * it finds where the plan would no longer be as the operators require.
 */
private[plan] object ShuffleWidth {

  /** Returns what an operator requires that makes calls for the rows of `child`, gathered by `keys`. */
  def kept(keys: Seq[Expression], child: SparkPlan): ClusteredDistribution =
    ClusteredDistribution(keys, requiredNumPartitions = written(child))

  /** The number of partitions that the shuffle right below has written, once it has. */
  private def written(child: SparkPlan): Option[Int] = child match {
    case AQEShuffleReadExec(stage: ShuffleQueryStageExec, _) => Some(stage.shuffle.numPartitions)
    case sort: SortExec => written(sort.child)
    case _ => None
  }
}
