package org.apache.spark.sql.pillarbox

import java.util.UUID

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{QueryExecution, SQLExecution}
import org.apache.spark.sql.pillarbox.Spark41.{IncrementalExecution, MicroBatchExecution, StreamExecution}

/**
 * A micro-batch of a streaming query.
 *
 * @param plan the query's whole plan, analysed
 * @param checkpoint the query's folder
 */
final case class MicroBatch(query: String, number: Long, plan: LogicalPlan, checkpoint: Path)

/**
 * A micro-batch, as a thread that is in its `foreachBatch` knows it.
 *
 * @param execution the number of its run, in this driver
 */
final case class ForeachBatch(query: String, number: Long, execution: String)

/**
 * A streaming query that runs.
 *
 * @param run the run, from a start of the query to its end
 * @param checkpoint the query's folder
 */
final case class RunningQuery(id: String, run: String, checkpoint: Path)

/** Finds the micro-batch of a thread. Written for Spark 4.2. */
object MicroBatches {

  /** The micro-batch whose plan the calling thread of the driver runs; None in a batch query. */
  def current(context: SparkContext): Option[MicroBatch] = running(context).map { batch =>
    MicroBatch(
      batch.queryId.toString,
      batch.currentBatchId,
      batch.analyzed,
      new Path(batch.checkpointLocation).getParent
    )
  }

  /** The optimized plan of that micro-batch. */
  def optimizedPlan(context: SparkContext): Option[LogicalPlan] = running(context).map(_.optimizedPlan)

  private[pillarbox] def running(context: SparkContext): Option[IncrementalExecution] =
    executing(context).collect { case batch: IncrementalExecution => batch }

  private def executing(context: SparkContext): Option[QueryExecution] =
    Option(context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
      .flatMap(id => Option(SQLExecution.getQueryExecution(id.toLong)))

  /** The micro-batch that the calling thread of the driver works for, also in its `foreachBatch`. */
  def inForeachBatch(context: SparkContext): Option[ForeachBatch] =
    for {
      query <- query(context)
      number <- Option(context.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY))
      execution <- action(context)
    } yield ForeachBatch(query, number.toLong, execution)

  /** The optimized plan of the action that the calling thread of the driver runs, of any query. */
  def planOfAction(context: SparkContext): Option[LogicalPlan] =
    executing(context).map(_.optimizedPlan)

  /** The streaming query that the calling thread of the driver works for, also in its `foreachBatch`. */
  def query(context: SparkContext): Option[String] =
    Option(context.getLocalProperty(StreamExecution.QUERY_ID_KEY))

  /** The action that the calling thread of the driver works for. None for an RDD of the user's own. */
  def action(context: SparkContext): Option[String] =
    Option(context.getLocalProperty(SQLExecution.EXECUTION_ROOT_ID_KEY))

  /** The micro-batch that the calling thread, a query's own, is about to plan. */
  def beingPlanned(session: SparkSession): Option[MicroBatch] = {
    val context = session.sparkContext
    for {
      query <- Option(context.getLocalProperty(StreamExecution.QUERY_ID_KEY))
      batch <- Option(context.getLocalProperty(MicroBatchExecution.BATCH_ID_KEY))
      execution <- active(session, query)
    } yield MicroBatch(
      query,
      batch.toLong,
      execution.analyzedPlan,
      new Path(execution.resolvedCheckpointRoot)
    )
  }

  private[pillarbox] def active(session: SparkSession, query: String): Option[StreamExecution] =
    Option(SparkAdapter.classicOf(session).sharedState.activeStreamingQueries.get(UUID.fromString(query)))

  /** The streaming query that the calling thread of the driver works for, also in its `foreachBatch`. */
  def runningQuery(session: SparkSession): Option[RunningQuery] =
    query(session.sparkContext).flatMap(active(session, _)).map { execution =>
      RunningQuery(
        execution.id.toString,
        execution.runId.toString,
        new Path(execution.resolvedCheckpointRoot)
      )
    }
}
