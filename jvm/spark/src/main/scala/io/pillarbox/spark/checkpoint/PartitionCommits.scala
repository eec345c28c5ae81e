package io.pillarbox.spark.checkpoint

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.Spark41.StatefulOperatorStateInfo
import org.apache.spark.sql.pillarbox.{RunningQueries, StatePartition, StatefulExec}

/**
 * The versions of an operator's partitions in one micro-batch, for its tasks.
 *
 * @param versionOf the version of a partition that the micro-batch starts from
 * @param baseOf the id, as Spark knows it, of that version
 * @param reports the reports of the tasks to the query's driver
 * @param layout the partitions, and those that there were before
 */
private[pillarbox] final case class PartitionCommits[A](
    settings: StateSettings,
    partitionOf: Int => StatePartition,
    versionOf: Int => StateVersion,
    baseOf: Int => Option[String],
    reports: PartitionReports[A],
    checkpoints: StatefulExec.CheckpointReport,
    layout: StateLayout
) {

  /** Reports a commit to the query's driver. Task thread. */
  def committed(partition: Int, next: StateVersion, content: A): Unit = {
    reports.add(partition -> PartitionReport(next.id, content))
    checkpoints.add(partition, next.number, next.id, baseOf(partition))
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
      checkpoints: StatefulExec.CheckpointReport,
      layout: Option[StateLayout] = None
  ): PartitionCommits[A] = {
    val now = layout.getOrElse(StateLayout(info.numPartitions))
    val isNew = now.beginsWith(info.storeVersion)
    val (run, versions) =
      if (checkpoints.withIds) (None, versionsOf(info, withIds = true))
      else {
        val ledger = AttemptLedger.of(info, session)
        val partitions = if (isNew) 0 else info.numPartitions
        val bases: Int => StateVersion = ledger.basesOf(info.storeVersion, partitions)
        ledger.begins(info.storeVersion + 1, reports)
        (Some(ledger.run), bases)
      }
    val from: Int => StateVersion = if (isNew) _ => StateVersion(info.storeVersion, None) else versions
    PartitionCommits(
      StateSettings.of(session, conf, run, now.since),
      StatePartition(info.checkpointLocation, info.operatorId, _, info.queryRunId),
      from,
      if (isNew && checkpoints.withIds) newBase(info) else from.andThen(_.id),
      reports,
      checkpoints,
      now
    )
  }

  /** Spark compares the ids that partitions go on from with those that it knows, by partition. */
  private def newBase(info: StatefulOperatorStateInfo): Int => Option[String] = {
    val id = "other partitions"
    RunningQueries.replaceIds(info.queryRunId, info.operatorId, Seq.fill(info.numPartitions)(id))
    _ => Some(id)
  }
}
