package io.pillarbox.spark.checkpoint

import io.pillarbox.state.StateRestoreException
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * The files that a partition's state can be loaded from: those of its own folder, and, where the number of
 * partitions has changed, those of the partitions that had its keys.
 *
 * Keys are in the partition that Spark's hash partitioning gives them. So with g the greatest common divisor
 * of the two numbers, keys of partition i come from those of i modulo g.
 *
 * @param operator its folder of state
 */
private[pillarbox] final class PartitionFiles(
    operator: Path,
    val number: Int,
    val layout: StateLayout,
    conf: Configuration
) {
  val folder = new StateFolder(new Path(operator, number.toString), conf)
  val history = new StateHistory(folder, layout.since)

  /** The partitions that this one's state began in, each with its version then; none if it began empty. */
  lazy val earlier: Seq[(PartitionFiles, StateVersion)] = layout.earlier.toSeq.flatMap { before =>
    val step = BigInt(before.layout.partitions).gcd(layout.partitions).toInt
    (number % step until before.layout.partitions by step).map { from =>
      new PartitionFiles(operator, from, before.layout, conf) -> StateVersion(
        before.version,
        before.ids(from)
      )
    }
  }

  /** True if files of other partitions have to be read for `version`; its own are missing, or damaged. */
  def needsEarlier(version: StateVersion): Boolean =
    layout.earlier.isDefined && !history.pathTo(version).headOption.exists(_.kind.isFull)

  /** True if all files for `version` are there. */
  def isThere(version: StateVersion): Boolean =
    try
      if (needsEarlier(version)) earlier.forall { case (files, before) => files.isThere(before) }
      else history.pathTo(version).nonEmpty
    catch { case _: StateRestoreException => false }
}
