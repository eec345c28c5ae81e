package org.apache.spark.sql.pillarbox

import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution
import org.apache.spark.sql.sources.StreamSinkProvider
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.{DataFrame, SQLContext}

/** A sink that plans each micro-batch anew and runs that plan, as Delta's does for some tables. */
class ReplanningSink extends StreamSinkProvider {
  override def createSink(
      context: SQLContext,
      parameters: Map[String, String],
      partitionColumns: Seq[String],
      outputMode: OutputMode
  ): Sink = (_: Long, data: DataFrame) => {
    val first = data.queryExecution.asInstanceOf[IncrementalExecution]
    val second = new IncrementalExecution(
      first.sparkSession,
      first.logical,
      first.outputMode,
      first.checkpointLocation,
      first.queryId,
      first.runId,
      first.currentBatchId,
      first.prevOffsetSeqMetadata,
      first.offsetSeqMetadata,
      first.watermarkPropagator,
      first.isFirstBatch,
      first.currentStateStoreCkptId,
      first.stateSchemaMetadatas
    )
    second.toRdd.foreach(_ => ())
  }
}
