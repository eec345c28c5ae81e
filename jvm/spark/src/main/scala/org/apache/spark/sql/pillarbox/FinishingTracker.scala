package org.apache.spark.sql.pillarbox

import org.apache.spark.sql.catalyst.plans.logical.LocalRelation
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink
import org.apache.spark.sql.execution.{SQLExecution, SparkPlan}
import org.apache.spark.sql.pillarbox.Spark41._

/**
 * The query's tracker of watermarks, which first runs what is left of the micro-batch in stateful nodes of
 * ours: a `foreachBatch` may take some partitions only, or none, or catch the failure of some; and of the
 * partitions that a `coalesce` puts into one task, those remain that nothing above it has asked for.
 *
 * It is what Spark asks between the sink and the commit, in all of its versions, on the thread of the query:
 * what is thrown here fails the query with the micro-batch to be run again. Written for Spark 4.2.
 */
private final class FinishingTracker(
    query: MicroBatchExecution,
    tracker: WatermarkTracker,
    isLeft: StatefulExec => Boolean
) extends WatermarkTracker(MinWatermark, LocalRelation()) {

  override def updateWatermark(plan: SparkPlan): Unit = {
    // Nodes nearer to the sink come first: running them runs those before them, up to a shuffle.
    val left = plan.collect { case node: StatefulExec if isLeft(node) => node }
    if (left.nonEmpty) SQLExecution.withNewExecutionId(query.lastExecution)(left.foreach(_.finish()))
    tracker.updateWatermark(plan)
  }

  override def setWatermark(newWatermarkMs: Long): Unit = tracker.setWatermark(newWatermarkMs)

  override def currentWatermark: Long = tracker.currentWatermark
}

private object FinishingTracker {

  /**
   * Before the first micro-batch of a run, once Spark has made its own tracker. Of the sinks that get a
   * DataFrame (`Sink`) some (Delta's) run a plan of their own, of which the query's nodes know nothing, and some
   * (files) pass over a micro-batch that they have: there only a node that was begun is finished.
   */
  def set(query: MicroBatchExecution): Unit = {
    val isLeft: StatefulExec => Boolean = query.sink match {
      case _: ForeachBatchSink[_] => !_.isDone
      case _: Sink => _.isPartlyDone
      case _ => !_.isDone
    }
    val tracker = new FinishingTracker(query, StreamInternals.watermarkTracker(query), isLeft)
    StreamInternals.setWatermarkTracker(query, tracker)
  }
}
