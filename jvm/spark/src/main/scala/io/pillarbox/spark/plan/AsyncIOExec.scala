package io.pillarbox.spark.plan

import io.pillarbox.spark.async.{AsyncIOMetrics, StreamingCallsRDD}
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning, UnspecifiedDistribution}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.pillarbox.MicroBatches

/**
 * Runs `node`: one operator for each partition, on the task's thread. There is no shuffle of its own;
 * partitioning is kept, and so is the order of rows in a partition if the operator is ordered.
 *
 * @param inStream true if rows leave while the input blocks, which costs one thread for each task
 */
private[pillarbox] final case class AsyncIOExec(node: AsyncIO, inStream: Boolean, child: SparkPlan)
    extends UnaryExecNode {
  import node.{results, spec}

  override def output: Seq[Attribute] = child.output ++ results

  override def producedAttributes: AttributeSet = AttributeSet(results)

  @transient override lazy val references: AttributeSet = node.references

  override def outputPartitioning: Partitioning = child.outputPartitioning

  override def requiredChildDistribution: Seq[Distribution] =
    if (node.gathered.isEmpty) UnspecifiedDistribution :: Nil
    else ShuffleWidth.kept(node.gathered, child) :: Nil

  override def outputOrdering: Seq[SortOrder] =
    if (spec.figures.ordered && node.by.isEmpty) child.outputOrdering else Nil

  override lazy val metrics: Map[String, SQLMetric] = AsyncIOMetrics.create(sparkContext, spec.units)

  override protected def stringArgs: Iterator[Any] = spec.summary.iterator

  override protected def doExecute(): RDD[InternalRow] = {
    val batch = MicroBatches.current(sparkContext)
    val scope = CallIdentity.scope(node, batch, sparkContext)
    val task = AsyncIOTasks.of(node, child.output, session, batch, scope, metrics)
    val rows = child.execute()
    if (inStream) new StreamingCallsRDD(rows, task)
    else rows.mapPartitionsWithIndex(task.run(_, _, TaskContext.get()), preservesPartitioning = true)
  }

  /** Ignores the ids of columns, so that a plan that has the node twice runs it once. */
  override protected def doCanonicalize(): SparkPlan =
    copy(node.canonicalized.asInstanceOf[AsyncIO], inStream, child.canonicalized)

  override protected def withNewChildInternal(newChild: SparkPlan): AsyncIOExec = copy(child = newChild)
}
