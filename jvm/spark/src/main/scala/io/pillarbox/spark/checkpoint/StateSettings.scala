package io.pillarbox.spark.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.util.SerializableConfiguration

/**
 * How the state of a query is kept; the same for all its tasks.
 *
 * @param hadoopConf
 *   for the checkpoint file system
 * @param withIds
 *   whether files are named by the attempt that wrote them (Spark's state-store checkpoint format 2)
 * @param versionsToRetain
 *   how many versions back the query can be restarted from
 * @param snapshotEvery
 *   a snapshot is taken after so many commits
 * @param rocksDBMemory
 *   limit of all databases of a process together, in bytes
 * @param maintenanceMs
 *   how often state that is no longer needed is looked for
 * @param reportCommits
 *   whether Spark wants to hear of every commit
 */
private[pillarbox] final case class StateSettings(
    hadoopConf: Broadcast[SerializableConfiguration],
    withIds: Boolean,
    versionsToRetain: Int,
    snapshotEvery: Int,
    rocksDBMemory: Long,
    maintenanceMs: Long,
    reportCommits: Boolean
) {
  def configuration: Configuration = hadoopConf.value.value

  /** The id as it stands in file names. */
  def nameId(id: String): Option[String] = Option.when(withIds)(id)
}
