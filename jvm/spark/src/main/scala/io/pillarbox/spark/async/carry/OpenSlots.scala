package io.pillarbox.spark.async.carry

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.checkpoint.StateVersion
import io.pillarbox.spark.state.OpenPartitions
import org.apache.spark.sql.pillarbox.StatePartition

/**
 * A slot with calls in flight between two micro-batches.
 *
 * @param version
 *   that was committed last
 * @param base
 *   the version before
 */
private[carry] final class OpenSlot(
    val slot: CarrySlot,
    val version: StateVersion,
    val base: StateVersion,
    val report: SlotReport
)

/**
 * The slots that this executor keeps between micro-batches. The task that checks a slot out has it alone.
 * Thread-safe.
 */
private[carry] object OpenSlots extends OpenPartitions {
  private val idle = new ConcurrentHashMap[StatePartition, OpenSlot]

  /** The slot of `partition`, if it is here, whatever its version. */
  def checkOut(partition: StatePartition): Option[OpenSlot] = Option(idle.remove(partition))

  /** One that has just committed; closes what another attempt left. */
  def checkIn(partition: StatePartition, open: OpenSlot): Unit = {
    val other = idle.put(partition, open)
    if (other != null && (other.slot ne open.slot)) other.slot.close()
  }

  override def partitions: Seq[StatePartition] = idle.keySet.asScala.toSeq

  /**
   * Ends the calls of a slot that this executor has no use for any more. The next micro-batch makes them
   * again, which is asked for: nobody else may have them.
   */
  override def unload(partition: StatePartition): Unit =
    checkOut(partition).foreach(open => open.slot.giveUp(open.version.number))

  /** Ends the calls of a query's run. */
  def closeRun(runId: String): Unit = partitions.filter(_.runId.toString == runId).foreach(unload)
}
