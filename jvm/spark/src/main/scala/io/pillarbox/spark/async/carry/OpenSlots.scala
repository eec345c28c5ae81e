package io.pillarbox.spark.async.carry

import io.pillarbox.spark.checkpoint.StateVersion
import io.pillarbox.spark.state.OpenPartitions
import org.apache.spark.sql.pillarbox.StatePartition

/**
 * A slot between two micro-batches.
 *
 * @param version the version that was committed last
 * @param base the version before
 */
private[carry] final class OpenSlot(
    val slot: CarrySlot,
    val version: StateVersion,
    val base: StateVersion,
    val report: SlotReport
) {

  /** True if it was seen, without anything in flight, by the last search for what is not needed. */
  @volatile var wasIdle = false

  def hasNothing: Boolean = report.inFlight == 0
}

/**
 * The slots that this executor keeps between micro-batches, so that the next one need not open the function
 * again. One with nothing in flight is kept until two searches for what is not needed have found it so.
 * Thread-safe.
 */
private[carry] object OpenSlots extends OpenPartitions[OpenSlot] {

  /** The slot of `partition`, if it is here, whatever its version. */
  def checkOut(partition: StatePartition): Option[OpenSlot] = take(partition)

  override protected def replaced(old: OpenSlot, open: OpenSlot): Unit =
    if (old.slot ne open.slot) old.slot.close()

  /** The next micro-batch makes the calls again, which is asked for: nobody else may have them. */
  override protected def discard(open: OpenSlot): Unit =
    if (open.hasNothing) open.slot.close() else open.slot.giveUp(open.version.number)

  /** The driver may not have been told of what has come. */
  override def keep(partition: StatePartition): Unit = Option(idle.get(partition)).foreach { open =>
    if (!open.hasNothing) open.slot.tellAgain()
    else if (open.wasIdle) {
      if (idle.remove(partition, open)) open.slot.close()
    } else open.wasIdle = true
  }

  /** Ends the calls of a query's run. */
  def closeRun(runId: String): Unit = partitions.filter(_.runId.toString == runId).foreach(unload)
}
