package io.pillarbox.spark.checkpoint

import java.util.UUID

import io.pillarbox.spark.base.PillarboxConf
import org.apache.hadoop.conf.Configuration
import org.apache.spark.TaskContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.{Spark41, SparkAdapter}
import org.apache.spark.util.SerializableConfiguration

/**
 * How the state of a query is kept; the same for all its tasks.
 *
 * @param hadoopConf
 *   for the checkpoint file system
 * @param run
 *   number of the run of the query, see [[AttemptLedger]]; None where Spark names the attempts (state-store
 *   checkpoint format 2)
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
    run: Option[Long],
    versionsToRetain: Int,
    snapshotEvery: Int,
    rocksDBMemory: Long,
    maintenanceMs: Long,
    reportCommits: Boolean
) {
  def configuration: Configuration = hadoopConf.value.value

  /** Of a file that an attempt is about to write. */
  def newId(task: TaskContext): String =
    run.fold(UUID.randomUUID().toString)(Attempt(_, task.taskAttemptId()).newId())
}

private[pillarbox] object StateSettings {

  /** On the driver. */
  def of(session: SparkSession, conf: SQLConf, run: Option[Long]): StateSettings = StateSettings(
    SparkAdapter.broadcastHadoopConf(session),
    run,
    versionsToRetain = conf.minBatchesToRetain,
    snapshotEvery = PillarboxConf.SnapshotEvery.read(conf),
    rocksDBMemory = PillarboxConf.RocksDBMemory.read(conf),
    maintenanceMs = PillarboxConf.MaintenanceInterval.read(conf),
    reportCommits = Spark41.reportsCommits(conf)
  )
}
