package io.pillarbox.spark.async.carry

import io.pillarbox.spark.checkpoint.StateVersion
import io.pillarbox.spark.state.OpenPartitions
import org.apache.spark.sql.pillarbox.StatePartition

/**
 * A slot with calls in flight between two micro-batches.
 *
 * @param version the version that was committed last
 * @param base the version before
 */
private[carry] final class OpenSlot(
    val slot: CarrySlot,
    val version: StateVersion,
    val base: StateVersion,
    val report: SlotReport
)

/** The slots that this executor keeps between micro-batches. Thread-safe. */
private[carry] object OpenSlots extends OpenPartitions[OpenSlot] {

  /** The slot of `partition`, if it is here, whatever its version. */
  def checkOut(partition: StatePartition): Option[OpenSlot] = take(partition)

  override protected def replaced(old: OpenSlot, open: OpenSlot): Unit =
    if (old.slot ne open.slot) old.slot.close()

  /** The next micro-batch makes the calls again, which is asked for: nobody else may have them. */
  override protected def discard(open: OpenSlot): Unit = open.slot.giveUp(open.version.number)

  /** The driver may not have been told. */
  override protected def onKept(open: OpenSlot): Unit = open.slot.tellAgain()

  /** Ends the calls of a query's run. */
  def closeRun(runId: String): Unit = partitions.filter(_.runId.toString == runId).foreach(unload)
}
