package io.pillarbox.spark.plan

import io.pillarbox.spark.async.KeyedCallMetrics
import io.pillarbox.spark.keyed._
import io.pillarbox.spark.state.BatchStateSource
import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{
  ClusteredDistribution,
  Distribution,
  Partitioning,
  StatefulOpClusteredDistribution,
  UnknownPartitioning
}
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/** Runs `node` on static data: sorted by key, one key at a time. */
private[pillarbox] final case class KeyedProcessBatchExec(
    node: KeyedProcess,
    child: SparkPlan
) extends UnaryExecNode {
  import node.{initial, keys, orderBy, results, spec, timestamp}

  override def output: Seq[Attribute] = results

  override def producedAttributes: AttributeSet = AttributeSet(results)

  @transient override lazy val references: AttributeSet = child.outputSet

  override def outputPartitioning: Partitioning = UnknownPartitioning(child.outputPartitioning.numPartitions)

  /** Initial state has to be partitioned in the same way, so the partitioning must be known. */
  override def requiredChildDistribution: Seq[Distribution] =
    (if (initial.isDefined) StatefulOpClusteredDistribution(keys, conf.numShufflePartitions)
     else if (node.calls.isDefined) ShuffleWidth.kept(keys, child)
     else ClusteredDistribution(keys)) :: Nil

  override def requiredChildOrdering: Seq[Seq[SortOrder]] = {
    val time = timestamp.filter(_ => spec.timeSorted).toSeq
    (keys ++ time ++ orderBy).map(SortOrder(_, Ascending)) :: Nil
  }

  override lazy val metrics: Map[String, SQLMetric] =
    Map("numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows")) ++
      Seq(KeyedMetrics.EventTimersFired, KeyedMetrics.ProcessingTimersFired).map { name =>
        name -> SQLMetrics.createMetric(sparkContext, KeyedMetrics.descriptions.toMap.apply(name))
      } ++ KeyedMetrics.ofPython(node.factory, sparkContext) ++
      node.calls.fold(Map.empty[String, SQLMetric])(calls =>
        KeyedCallMetrics.create(sparkContext, calls.units)
      )

  override protected def stringArgs: Iterator[Any] = node.summary.iterator

  override protected def doExecute(): RDD[InternalRow] = {
    DriverEnd.serve(sparkContext)
    val task = KeyedCalls.added(node, node.batchTask(child.output, conf, metrics), session)
    val input = child.execute()
    initial.map(_.rows(input.getNumPartitions).rows) match {
      case None => input.mapPartitions(KeyedProcessBatchExec.run(task, _, Iterator.empty))
      case Some(rows) => input.zipPartitions(rows)(KeyedProcessBatchExec.run(task, _, _))
    }
  }

  /** Ignores the ids of columns, so that a plan that has the node twice runs it once. */
  override protected def doCanonicalize(): SparkPlan =
    copy(node = node.canonicalized.asInstanceOf[KeyedProcess], child = child.canonicalized)

  override protected def withNewChildInternal(newChild: SparkPlan): KeyedProcessBatchExec =
    copy(child = newChild)
}

private object KeyedProcessBatchExec {
  def run(
      task: KeyedTaskSpec,
      input: Iterator[InternalRow],
      initial: Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    new KeyedIterator(task, input, new BatchStateSource(task.keySchema), TaskContext.get(), initial)
  }
}
