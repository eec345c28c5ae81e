package io.pillarbox.spark.state

import org.apache.spark.sql.pillarbox.StatePartition

/** What an executor keeps of stateful operators between micro-batches, by partition. Thread-safe. */
private[pillarbox] trait OpenPartitions {

  /** Those that are here and idle. */
  def partitions: Seq[StatePartition]

  /** Frees what this executor has no use for any more. */
  def unload(partition: StatePartition): Unit
}
