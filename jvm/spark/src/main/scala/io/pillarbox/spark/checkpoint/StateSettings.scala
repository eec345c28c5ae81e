package io.pillarbox.spark.checkpoint

import java.util.UUID

import io.pillarbox.spark.base.PillarboxConf
import org.apache.hadoop.conf.Configuration
import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.Spark41
import org.apache.spark.util.SerializableConfiguration

/**
 * The settings of a query's state, which are the same for all its tasks.
 *
 * @param hadoopConf the configuration of the checkpoint file system
 * @param run the number of the query's run, see [[OperatorRegistry]]; None where Spark names the attempts
 *   (state-store checkpoint format 2)
 * @param versionsToRetain the number of versions back from which the query can be restarted
 * @param snapshotEvery the number of commits after which a snapshot is taken
 * @param rocksDBMemory the limit of all databases of a process together, in bytes; None for the default
 * @param maintenanceMs the interval of the search for state that is no longer needed
 * @param reportCommits true if Spark wants a report of every commit
 * @param since files of versions up to it are those of partitions that there were before, see [[StateLayout]]
 */
private[pillarbox] final case class StateSettings(
    hadoopConf: Broadcast[SerializableConfiguration],
    run: Option[Long],
    versionsToRetain: Int,
    snapshotEvery: Int,
    rocksDBMemory: Option[Long],
    maintenanceMs: Long,
    reportCommits: Boolean,
    since: Long
) {
  def configuration: Configuration = hadoopConf.value.value

  /** Makes the id of a file that an attempt is about to write. */
  def newId(task: TaskContext): String =
    run.fold(UUID.randomUUID().toString)(Attempt(_, task.taskAttemptId()).newId())
}

private[pillarbox] object StateSettings {

  /** Reads the settings. On the driver. */
  def of(
      hadoopConf: Broadcast[SerializableConfiguration],
      conf: SQLConf,
      run: Option[Long],
      since: Long
  ): StateSettings = StateSettings(
    hadoopConf,
    run,
    versionsToRetain = conf.minBatchesToRetain,
    snapshotEvery = PillarboxConf.SnapshotEvery.read(conf),
    rocksDBMemory = PillarboxConf.RocksDBMemory.readIfSet(conf),
    maintenanceMs = PillarboxConf.MaintenanceInterval.read(conf),
    reportCommits = Spark41.reportsCommits(conf),
    since = since
  )
}
