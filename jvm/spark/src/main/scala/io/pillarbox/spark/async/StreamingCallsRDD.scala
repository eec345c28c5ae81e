package io.pillarbox.spark.async

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.SourceContext
import org.apache.spark.{Partition, Partitioner, TaskContext}

/** The rows of `rows` with the results of their calls, each of which leaves while those below block. */
private[pillarbox] final class StreamingCallsRDD(rows: RDD[InternalRow], task: AsyncIOTaskSpec)
    extends RDD[InternalRow](rows) {

  override val partitioner: Option[Partitioner] = rows.partitioner

  override protected def getPartitions: Array[Partition] = firstParent[InternalRow].partitions

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val reading = new SourceContext(context)
    task.run(split.index, firstParent[InternalRow].iterator(split, reading), context, Some(reading))
  }
}
