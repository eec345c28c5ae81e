package io.pillarbox.spark.plan

import io.pillarbox.spark.async.AsyncIOMetrics
import io.pillarbox.spark.checkpoint.OperatorMetadata
import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.pillarbox.{MicroBatches, RealTimeMode, SourceContext}

/** Async I/O in real-time mode: a function over a partition, whose rows leave when their calls end. */
private object RealTimeCalls {

  /** Plans the node. On the driver, when a micro-batch of a query in real-time mode is planned. */
  def plan(node: AsyncIO, child: SparkPlan): SparkPlan = {
    if (node.gathered.nonEmpty) throw OperatorMetadata.refused("REAL_TIME_BY", node.spec.operator)
    if (node.spec.limits.exists(_.estimateFunction.isDefined))
      throw OperatorMetadata.refused("REAL_TIME_ESTIMATE", node.spec.operator)
    val session = SparkSession.active
    val batch = MicroBatches.beingPlanned(session)
    val scope = CallIdentity.scope(node, batch, session.sparkContext)
    val metrics = AsyncIOMetrics.create(session.sparkContext, node.spec.units)
    val task = AsyncIOTasks.of(node, child.output, session, batch, scope, metrics)
    RealTimeMode.mapPartitions(child, child.output ++ node.results, task.spec.operator) { rows =>
      val context = TaskContext.get()
      task.run(context.partitionId(), rows, context, Some(new SourceContext(context)))
    }
  }
}
