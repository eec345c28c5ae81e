package io.pillarbox.spark.checkpoint

import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.Spark41.StatefulOperatorStateInfo
import org.apache.spark.sql.pillarbox.{SparkAdapter, StatePartition, StatefulExec}

/**
 * The versions of an operator's partitions in one micro-batch.
 *
 * @param versionOf the version of a partition that the micro-batch starts from. On the driver only: each task
 *   gets its own with its partition, so that none reads those of all
 * @param reports the reports of the tasks to the query's driver
 */
private[pillarbox] final case class PartitionCommits[A](
    settings: StateSettings,
    partitionOf: Int => StatePartition,
    @transient versionOf: Int => StateVersion,
    reports: PartitionReports[A],
    checkpoints: StatefulExec.CheckpointReport
) {

  /** Reports a commit, of the version after `base`, to the query's driver. Task thread. */
  def committed(partition: Int, base: StateVersion, next: StateVersion, content: A): Unit = {
    reports.add(partition -> PartitionReport(next.id, content))
    checkpoints.add(partition, next.number, next.id, base.id)
    if (settings.reportCommits) partitionOf(partition).reportCommit(next.number)
  }
}

private[pillarbox] object PartitionCommits {

  /** The versions that the last micro-batch has left, as far as Spark tells. */
  def versionsOf(info: StatefulOperatorStateInfo, withIds: Boolean): Int => StateVersion = {
    // There may have been fewer partitions.
    val ids =
      if (withIds) info.stateStoreCkptIds.fold(IndexedSeq.empty[String])(_.map(_.head).toIndexedSeq) else Nil
    partition => StateVersion(info.storeVersion, ids.lift(partition))
  }

  /** Looks up the versions, before a micro-batch runs. On the driver. */
  def of[A](
      info: StatefulOperatorStateInfo,
      session: SparkSession,
      conf: SQLConf,
      reports: PartitionReports[A],
      checkpoints: StatefulExec.CheckpointReport
  ): PartitionCommits[A] = {
    val (run, versions) =
      if (checkpoints.withIds) (None, versionsOf(info, withIds = true))
      else {
        val folder = new Path(info.checkpointLocation, info.operatorId.toString)
        val ledger = AttemptLedger.of(info.queryRunId.toString, folder, SparkAdapter.hadoopConf(session))
        val bases: Int => StateVersion = ledger.basesOf(info.storeVersion, info.numPartitions)
        ledger.begins(info.storeVersion + 1, reports)
        (Some(ledger.run), bases)
      }
    val (checkpoint, operator, query) = (info.checkpointLocation, info.operatorId, info.queryRunId)
    PartitionCommits(
      StateSettings.of(session, conf, run),
      StatePartition(checkpoint, operator, _, query),
      versions,
      reports,
      checkpoints
    )
  }
}
