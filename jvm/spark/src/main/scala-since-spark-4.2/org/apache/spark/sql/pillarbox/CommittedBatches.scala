package org.apache.spark.sql.pillarbox

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CommitLog

/** The micro-batches that a streaming query has finished, from its checkpoint. On the driver. */
final class CommittedBatches(session: SparkSession, checkpoint: String) {
  private val log =
    new CommitLog(SparkAdapter.classicOf(session), new Path(checkpoint, "commits").toString, readOnly = true)

  /** The ids of the micro-batches, in order; empty if there is no checkpoint. */
  def ids: Seq[Long] =
    try log.listBatchesOnDisk.toSeq.sorted
    catch { case _: java.io.FileNotFoundException => Nil }

  /** The id of the state that a batch wrote in each partition of an operator, under checkpoint format 2. */
  def stateIds(batch: Long, operator: Long): Option[Seq[String]] =
    log
      .get(batch)
      .flatMap(_.stateUniqueIds)
      .flatMap(_.get(operator))
      .map(_.toSeq.map(_.head))
}
