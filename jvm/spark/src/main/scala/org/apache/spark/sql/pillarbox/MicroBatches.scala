package org.apache.spark.sql.pillarbox

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution

/**
 * A micro-batch of a streaming query.
 *
 * @param plan
 *   the whole of the query's, analysed
 * @param checkpoint
 *   the query's folder
 */
final case class MicroBatch(query: String, number: Long, plan: LogicalPlan, checkpoint: Path)

/** Written for Spark 4.2. */
object MicroBatches {

  /** The micro-batch whose plan is being run by the calling thread of the driver; None in a batch query. */
  def current(context: SparkContext): Option[MicroBatch] =
    for {
      id <- Option(context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
      batch <- Option(SQLExecution.getQueryExecution(id.toLong)).collect { case b: IncrementalExecution => b }
    } yield MicroBatch(
      batch.queryId.toString,
      batch.currentBatchId,
      batch.analyzed,
      new Path(batch.checkpointLocation).getParent
    )
}
