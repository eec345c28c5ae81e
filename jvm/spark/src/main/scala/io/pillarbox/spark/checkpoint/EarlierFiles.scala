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
   * @param until no file of a later version is deleted: it may be of a run with more partitions again
   * @param current the versions that the last micro-batch has left
   * @return true if they are gone
   */
  def deleteBefore(oldest: Long, until: Long, current: Int => StateVersion): Boolean = {
    val unneeded = oldest > layout.since && InParallel((0 until layout.partitions).map { number => () =>
      val history = new PartitionFiles(operator, number, layout, conf).history
      history.startsWithSnapshot(current(number), oldest)
    }).forall(identity)
    if (unneeded)
      StoredOperators.numbersIn(operator, conf).foreach(number => delete(number.toInt, until))
    unneeded
  }

  /** Of a partition that is no more, files of any version are left over. */
  private def delete(number: Int, until: Long): Unit = {
    val last = if (number < layout.partitions) layout.since else until
    val path = new Path(operator, number.toString)
    val folder = new StateFolder(path, conf)
    new StateHistory(folder).deleteUpTo(last, new SharedTables(path, conf))
  }
}
