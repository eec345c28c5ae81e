package io.pillarbox.spark.inspect

import io.pillarbox.spark.checkpoint.{PartitionFiles, StateLayout, StateVersion}
import io.pillarbox.spark.state.{LocalDatabase, StateBackends, StateLoader}
import io.pillarbox.state.rocksdb.store.RocksDBMemory
import org.apache.hadoop.fs.Path
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.pillarbox.LocalFolders
import org.apache.spark.util.SerializableConfiguration
import org.apache.spark.{Partition, SparkContext, TaskContext}

/** A partition of an operator's state, and the version to read. */
private final case class StoredPartition(index: Int, version: StateVersion) extends Partition

/**
 * The rows of one version of state, a task for each partition. A task loads the state into a database of its
 * own, which is gone when the task ends; the query that wrote it may go on meanwhile.
 *
 * @param operator its folder of state
 * @param parts the partitions that the state is in
 */
private final class StoredRowsRDD(
    context: SparkContext,
    operator: String,
    parts: StateLayout,
    stored: Seq[StoredPartition],
    layout: StoredLayout,
    hadoopConf: Broadcast[SerializableConfiguration],
    memoryLimit: Option[Long]
) extends RDD[InternalRow](context, Nil) {

  override protected def getPartitions: Array[Partition] = stored.toArray

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val partition = split.asInstanceOf[StoredPartition]
    val files =
      new PartitionFiles(new Path(operator), partition.index, parts, hadoopConf.value.value)
    // What is registered later is closed earlier.
    def later(resource: AutoCloseable): Unit =
      context.addTaskCompletionListener[Unit](_ => resource.close()): Unit
    val scratch = LocalFolders.create("read-state")
    later(scratch)
    val memory = memoryLimit.getOrElse(RocksDBMemory.default)
    def make(from: Option[LocalDatabase]) = StateBackends.forReading(layout.keys, memory, from)
    val loader = new StateLoader(files, layout.keys, () => make(None), from => Some(make(Some(from))))
    val versioned = loader.load(partition.version)
    val toUnsafe = UnsafeProjection.create(layout.schema)
    // The source of the rows is on the local disk by then; and the task may end on another thread.
    try
      layout
        .rows(versioned.state, partition.index, scratch.path.resolve("entries"), later(_))
        .map(toUnsafe)
    finally versioned.close()
  }
}
