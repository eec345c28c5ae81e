package io.pillarbox.spark.keyed

import io.pillarbox.api.TimeDomain
import io.pillarbox.spark.checkpoint.{AttemptIds, StateVersion}
import io.pillarbox.spark.state.{PartitionState, StateReport}
import org.apache.spark.sql.pillarbox.StatefulExec

/**
 * Tells the driver after a commit: when the partition's next timers are due, and which checkpoint it wrote.
 */
private[pillarbox] final case class KeyedReport(
    nextTimers: NextTimers,
    attempts: AttemptIds,
    checkpoints: StatefulExec.CheckpointReport
) extends StateReport {

  override def committed(
      partition: Int,
      base: StateVersion,
      next: StateVersion,
      state: PartitionState
  ): Unit = {
    nextTimers.add((state.nextTimer(TimeDomain.EVENT_TIME), state.nextTimer(TimeDomain.PROCESSING_TIME)))
    next.id.foreach(id => attempts.add(partition -> id))
    checkpoints.add(partition, next.number, next.id, base.id)
  }
}
