package io.pillarbox.spark.keyed

import io.pillarbox.spark.checkpoint.{DueTimes, PartitionReport, PartitionReports, StateVersion}
import io.pillarbox.spark.state.{PartitionState, StateReport}
import org.apache.spark.sql.pillarbox.StatefulExec

/** Reports a commit to the driver: the times of the partition's next timers, and its checkpoint. */
private[pillarbox] final case class KeyedReport(
    reports: PartitionReports[DueTimes],
    checkpoints: StatefulExec.CheckpointReport
) extends StateReport {

  override def committed(
      partition: Int,
      base: StateVersion,
      next: StateVersion,
      state: PartitionState
  ): Unit = {
    reports.add(partition -> PartitionReport(next.id, state.dueTimes))
    checkpoints.add(partition, next.number, next.id, base.id)
  }
}
