package org.apache.spark.sql.pillarbox

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog

/** Reads a streaming query's log of started micro-batches. On the driver. */
object BatchOffsets {

  /**
   * Returns the watermark of the sources that a micro-batch was started with, in ms; 0 for none.
   *
   * @param state the query's folder of state
   */
  def watermarkOf(session: SparkSession, state: String, batch: Long): Long =
    new OffsetSeqLog(
      SparkAdapter.classicOf(session),
      new Path(new Path(state).getParent, "offsets").toString,
      readOnly = true
    ).offsetSeqMetadataForBatchId(batch).fold(0L)(_.batchWatermarkMs)
}
