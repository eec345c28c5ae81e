package io.pillarbox.spark.async.carry

import java.io.ObjectOutputStream

import io.pillarbox.spark.checkpoint.PartitionBase
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.StatePartition
import org.apache.spark.{NarrowDependency, Partition, TaskContext}

/**
 * One micro-batch of an operator with carry-over. Slot `i` takes the partitions i, i + N, … of the rows in
 * turn, without a shuffle, where N is the number of slots. Its tasks run where the slots' calls are in
 * flight, if Spark can have it so.
 *
 * @param locate the executors that have a slot open; asked on the driver
 * @param begins true for the first who begins to write the version; asked on the driver
 */
private[pillarbox] final class CarryRDD(
    rows: RDD[InternalRow],
    slots: Int,
    task: CarryTaskSpec,
    @transient private val locate: StatePartition => Seq[String],
    @transient private val begins: () => Boolean
) extends RDD[InternalRow](rows.context, Seq(new EveryNth(rows, slots))) {

  private var isFirst = false

  /**
   * The scheduler does so once for each stage with the RDD: what a second one's tasks write may be there
   * already. Elsewhere it is only tried out.
   */
  private def writeObject(out: ObjectOutputStream): Unit = {
    isFirst = Thread.currentThread.getName == CarryRDD.Scheduler && begins()
    out.defaultWriteObject()
  }

  override protected def getPartitions: Array[Partition] =
    Array.tabulate(slots)(slot =>
      new SlotPartition(
        slot,
        (slot until rows.partitions.length by slots).map(rows.partitions(_)),
        task.commits.baseOf(slot)
      )
    )

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    locate(task.commits.partitionOf(split.index))

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val slot = split.asInstanceOf[SlotPartition]
    val input = slot.parents.iterator.flatMap(rows.iterator(_, context))
    new CarryIterator(task, split.index, slot.base, isFirst, input, context)
  }
}

private object CarryRDD {

  /** The name of the thread that submits stages. Were it another one, each would count as a later one. */
  private final val Scheduler = "dag-scheduler-event-loop"
}

/** A slot, the partitions of the input that it takes, and what the micro-batch starts from. */
private final class SlotPartition(
    override val index: Int,
    val parents: Seq[Partition],
    val base: PartitionBase
) extends Partition

private final class EveryNth(rows: RDD[InternalRow], slots: Int) extends NarrowDependency[InternalRow](rows) {
  private val count = rows.getNumPartitions

  override def getParents(slot: Int): Seq[Int] = slot until count by slots
}
