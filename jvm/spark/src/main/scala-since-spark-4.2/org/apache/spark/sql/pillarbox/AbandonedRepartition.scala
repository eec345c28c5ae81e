package org.apache.spark.sql.pillarbox

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing._
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.execution.streaming.state.OfflineStateRepartitionUtils
import org.apache.spark.sql.internal.SQLConf
import org.slf4j.LoggerFactory

/**
 * Takes back the batch of a repartition of state that Spark has begun and can't finish. Written for Spark
 * 4.2.
 *
 * Spark writes the batch's offsets before it looks at any state, fails at the state of this library, and lets
 * no query start on them. The batch has left only copies of an earlier batch's offsets, and empty commits of
 * failed batches that it was to skip.
 */
private object AbandonedRepartition {
  private val log = LoggerFactory.getLogger(getClass)

  /** Runs on the query's thread, before it begins. Does nothing if Spark's own state may have changed. */
  def takeBack(query: MicroBatchExecution, hooks: QueryHooks): Unit =
    for {
      started <- query.offsetLog.getLatestBatchId()
      committed <- query.commitLog.getLatestBatchId()
      if started > committed && OfflineStateRepartitionUtils.isRepartitionBatch(started, query.offsetLog)
      origin <- originOf(started, query.offsetLog)
      if hasOurStateOnly(query, hooks)
    } {
      // In this order, as a repartition that is taken back halfway can still be recognised.
      query.commitLog.purgeAfter(origin)
      query.offsetLog.purgeAfter(started - 1)
      log.warn(
        s"Query ${query.id} goes on with the number of partitions that it had: Spark can't repartition " +
          "the state of " +
          s"keyed functions. Batch $started, which was to do so, is taken back. Change the " +
          "number with partitions= or spark.sql.shuffle.partitions at a restart"
      )
    }

  /** The batch that a repartition was made from, which has the same offsets and times. */
  private def originOf(started: Long, offsets: OffsetSeqLog): Option[Long] = {
    val content = offsets.get(started).map(withoutPartitions)
    offsets.listBatchesOnDisk
      .filter(_ < started)
      .sorted
      .reverse
      .find(batch => offsets.get(batch).map(withoutPartitions) == content)
  }

  private def withoutPartitions(batch: OffsetSeqBase): Any = batch match {
    case v1: OffsetSeq => (v1.offsets, v1.metadataOpt.map(withoutPartitions))
    case v2: OffsetMap => (v2.offsetsMap, withoutPartitions(v2.metadata))
    case other => other
  }

  private def withoutPartitions(metadata: OffsetSeqMetadataBase): Any =
    (metadata.batchWatermarkMs, metadata.batchTimestampMs, metadata.conf - SQLConf.SHUFFLE_PARTITIONS.key)

  private def hasOurStateOnly(query: MicroBatchExecution, hooks: QueryHooks): Boolean = {
    val conf = query.sparkSession.sessionState.newHadoopConf()
    val root = new Path(query.resolvedCheckpointRoot, "state")
    val operators = root.getFileSystem(conf).listStatus(root).filter(_.isDirectory)
    operators.forall(operator => hooks.isOurs(operator.getPath, conf))
  }
}
