package io.pillarbox.spark.state

import io.pillarbox.state.StateRestoreException
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.types.StructType

/**
 * Chooses the keys of a partition from those of one that was there before. One thread.
 *
 * @param from the partitions there were, and the one whose keys these are
 * @param to the partitions there are, and the one whose keys are taken
 * @param source names the files in errors
 */
private[state] final class MovedKeys(
    keys: StructType,
    from: MovedKeys.Place,
    to: MovedKeys.Place,
    source: String
) extends (UnsafeRow => Boolean) {

  private val toPartitions = {
    val columns = keys.zipWithIndex.map { case (key, at) =>
      BoundReference(at, key.dataType, nullable = true)
    }
    UnsafeProjection.create(
      Seq(from, to).map(place => HashPartitioning(columns, place.partitions).partitionIdExpression)
    )
  }

  /** True if all of them are taken. */
  val takesAll: Boolean = from.partitions % to.partitions == 0

  /** @throws StateRestoreException if the key is not of the partition that it comes from */
  override def apply(key: UnsafeRow): Boolean = {
    val found = toPartitions(key)
    if (found.getInt(0) != from.number) throw misplaced(found.getInt(0))
    found.getInt(1) == to.number
  }

  private def misplaced(number: Int) = new StateRestoreException(
    "STATE_KEY_MISPLACED",
    s"$source has a key of partition $number of ${from.partitions}, so its keys were not partitioned by their " +
      s"hashes. Its state can't move to ${to.partitions} partitions: set spark.sql.shuffle.partitions, or " +
      s"partitions, to ${from.partitions}"
  )
}

private[state] object MovedKeys {

  /** Partition `number` of so many. */
  final case class Place(number: Int, partitions: Int)
}
