package io.pillarbox.spark.state

import io.pillarbox.state.{KeyPart, StateRestoreException}
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

/**
 * The keys that a partition takes from one that was there before, by way of others if the number has changed
 * more than once.
 *
 * @param isAlone true if it takes none from any other
 * @param further the keys of `to` that are taken; null for all
 */
private[state] final class TakenKeys(
    keys: StructType,
    from: MovedKeys.Place,
    to: MovedKeys.Place,
    source: String,
    val isAlone: Boolean,
    further: TakenKeys
) {

  /** True if all keys are taken. */
  val isAll: Boolean = further == null && from.partitions % to.partitions == 0

  /** True for the keys that are taken. One thread. */
  lazy val test: UnsafeRow => Boolean = newTest()

  private def newTest(): UnsafeRow => Boolean = {
    val mine = new MovedKeys(keys, from, to, source)
    if (further == null) mine
    else {
      val others = further.newTest()
      key => mine(key) && others(key)
    }
  }

  /** About the part of all keys that is taken. */
  private def share: Double = {
    val step = BigInt(from.partitions).gcd(to.partitions).toDouble
    step / to.partitions * (if (further == null) 1.0 else further.share)
  }

  /** @param entries the entries of all keys */
  def partOf(entries: Long): KeyPart[UnsafeRow] = new KeyPart(share, entries, () => newTest())
}
