package io.pillarbox.spark.plan

import io.pillarbox.spark.checkpoint.{AttemptLedger, PartitionReports, StateVersion}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.pillarbox.Spark41.StatefulOperatorStateInfo

/**
 * The version of each partition that a micro-batch starts from.
 *
 * @param run
 *   the number of the query's run; None where Spark names the attempts (state-store checkpoint format 2)
 * @param bases the versions by partition
 */
private[plan] final case class PartitionVersions(run: Option[Long], bases: Int => StateVersion)

private[plan] object PartitionVersions {

  /** The versions that the last micro-batch has left, as far as Spark tells. */
  def ofLast(info: StatefulOperatorStateInfo, withIds: Boolean): Int => StateVersion = {
    // There may have been fewer partitions.
    val ids =
      if (withIds) info.stateStoreCkptIds.fold(IndexedSeq.empty[String])(_.map(_.head).toIndexedSeq) else Nil
    partition => StateVersion(info.storeVersion, ids.lift(partition))
  }

  /**
   * Returns the versions before a micro-batch runs. On the driver.
   *
   * @param withIds true if Spark names the attempts
   * @param reports the reports in which the tasks will name themselves
   */
  def of(
      info: StatefulOperatorStateInfo,
      withIds: Boolean,
      reports: PartitionReports[_],
      conf: Configuration
  ): PartitionVersions =
    if (withIds) PartitionVersions(None, ofLast(info, withIds))
    else {
      val folder = new Path(info.checkpointLocation, info.operatorId.toString)
      val ledger = AttemptLedger.of(info.queryRunId.toString, folder, conf)
      val bases = ledger.basesOf(info.storeVersion, info.numPartitions)
      ledger.begins(info.storeVersion + 1, reports)
      PartitionVersions(Some(ledger.run), bases)
    }
}
