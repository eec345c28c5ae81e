package io.pillarbox.spark.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * The operators of this library that a query has left in its folder of state, at a version. On the driver.
 *
 * @param state
 *   the query's folder of state
 * @param version
 *   the version of the last micro-batch that was committed
 * @param ids
 *   the ids of its commits, by operator and partition; none under checkpoint format 1
 */
private[pillarbox] final class StoredOperators(
    state: Path,
    version: Long,
    ids: (Long, Int) => Option[String],
    conf: Configuration
) {
  private val metadata =
    StoredOperators.at(state, version, conf)

  /** The times of the next timers over all keyed functions, from the headers of their newest deltas. */
  def timers: DueTimes = {
    val due = parts(!_.carriesCalls)((_, folder, version) => new StateHistory(folder).header(version).due)
    due.foldLeft(DueTimes.Never)(_ min _)
  }

  /**
   * Reads a value of each partition of some operators, several at a time: one small read for each partition,
   * as Spark does itself when it restarts a query.
   */
  def parts[A](
      wanted: OperatorMetadata => Boolean
  )(read: (OperatorMetadata, StateFolder, StateVersion) => A): Seq[A] =
    InParallel(for {
      (operator, metadata) <- metadata if wanted(metadata)
      partition <- 0 until metadata.partitions
      folder = new StateFolder(new Path(state, s"$operator/$partition"), conf)
    } yield () => read(metadata, folder, StateVersion(version, ids(operator, partition))))
}

private[pillarbox] object StoredOperators {

  /** The metadata of the operators by their numbers, in order. */
  def in(state: Path, conf: Configuration): Seq[(Long, OperatorMetadata)] =
    numbersIn(state, conf).flatMap { number =>
      OperatorMetadata.find(new Path(state, number.toString), conf).map(number -> _)
    }

  /** The same as they were at a version, without those that the query had no more. */
  def at(state: Path, version: Long, conf: Configuration): Seq[(Long, OperatorMetadata)] =
    in(state, conf)
      .map { case (number, metadata) => number -> metadata.at(version) }
      .filterNot(_._2.isGone(version))

  /** The numbers of the operators in a folder of state, or of the partitions in an operator's, in order. */
  def numbersIn(folder: Path, conf: Configuration): Seq[Long] = {
    val files = folder.getFileSystem(conf)
    val folders = if (files.exists(folder)) files.listStatus(folder).toSeq.filter(_.isDirectory) else Nil
    folders.flatMap(_.getPath.getName.toLongOption).sorted
  }
}
