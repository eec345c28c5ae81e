package io.pillarbox.spark.checkpoint

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.Spark41.StatefulOperatorStateInfo
import org.apache.spark.sql.pillarbox.StatefulExec.Attempted
import org.apache.spark.sql.pillarbox.{RunningQueries, StatePartition}

/**
 * The versions of an operator's partitions in one micro-batch.
 *
 * @param baseOf what a partition starts from. On the driver only: each task gets its own with its partition, so
 *   that none reads those of all
 * @param reports the reports of the tasks to the query's driver
 * @param layout the partitions, and those that there were before
 */
private[pillarbox] final case class PartitionCommits[A](
    settings: StateSettings,
    partitionOf: Int => StatePartition,
    @transient baseOf: Int => PartitionBase,
    reports: PartitionReports[A],
    layout: StateLayout
) {

  /** Reports a commit, of the version after `base`, to the query's driver. Task thread. */
  def committed(partition: Int, base: PartitionBase, next: StateVersion, content: A): Unit = {
    reports.add(partition -> PartitionReport(Attempted(next.id.get, base.id), content))
    if (settings.reportCommits) partitionOf(partition).reportCommit(next.number)
  }
}

/**
 * What a partition starts from in a micro-batch.
 *
 * @param id the id of the version, as Spark knows it
 */
private[pillarbox] final case class PartitionBase(version: StateVersion, id: Option[String])

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
      withIds: Boolean,
      layout: Option[StateLayout] = None
  ): PartitionCommits[A] = {
    val now = layout.getOrElse(StateLayout(info.numPartitions))
    val isNew = now.beginsWith(info.storeVersion)
    val ledger = OperatorRegistry.of(info, session)
    val (run, versions) =
      if (withIds) (None, versionsOf(info, withIds = true))
      else {
        val partitions = if (isNew) 0 else info.numPartitions
        val bases: Int => StateVersion = ledger.basesOf(info.storeVersion, partitions)
        ledger.begins(info.storeVersion + 1, reports)
        (Some(ledger.run), bases)
      }
    val from: Int => StateVersion = if (isNew) _ => StateVersion(info.storeVersion, None) else versions
    val idOf = if (isNew && withIds) newBase(info) else from.andThen(_.id)
    val (checkpoint, operator, query) = (info.checkpointLocation, info.operatorId, info.queryRunId)
    PartitionCommits(
      StateSettings.of(ledger.broadcastConf(session.sparkContext), conf, run, now.since),
      StatePartition(checkpoint, operator, _, query),
      partition => PartitionBase(from(partition), idOf(partition)),
      reports,
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
