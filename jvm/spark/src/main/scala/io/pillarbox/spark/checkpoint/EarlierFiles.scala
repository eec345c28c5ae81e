package io.pillarbox.spark.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * The files of the partitions that an operator had before their number changed. No partition deletes them, as
 * others may still read them. On the driver.
 *
 * @param operator its folder of state
 */
private[pillarbox] final class EarlierFiles(operator: Path, layout: StateLayout, conf: Configuration) {

  /**
   * Deletes them if each partition has a snapshot of its own that all versions from `oldest` on are loaded
   * from.
   *
   * @param current the versions that the last micro-batch has left
   * @return true if they are gone
   */
  def deleteBefore(oldest: Long, current: Int => StateVersion): Boolean = {
    val unneeded = oldest > layout.since && InParallel((0 until layout.partitions).map { number => () =>
      val history = new PartitionFiles(operator, number, layout, conf).history
      history.startsWithSnapshot(current(number), oldest)
    }).forall(identity)
    if (unneeded)
      StoredOperators.numbersIn(operator, conf).foreach(number => delete(number.toInt))
    unneeded
  }

  /** Of a partition that is no more, files of any version are left over. */
  private def delete(number: Int): Unit = {
    val last = if (number < layout.partitions) layout.since else Long.MaxValue - 1
    val path = new Path(operator, number.toString)
    val folder = new StateFolder(path, conf)
    new StateHistory(folder).deleteUpTo(last, new SharedTables(path, conf))
  }
}
