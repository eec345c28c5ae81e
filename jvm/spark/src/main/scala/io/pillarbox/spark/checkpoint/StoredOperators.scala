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
  private val notes =
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
      wanted: OperatorNote => Boolean
  )(read: (OperatorNote, StateFolder, StateVersion) => A): Seq[A] =
    InParallel(for {
      (operator, note) <- notes if wanted(note)
      partition <- 0 until note.partitions
      folder = new StateFolder(new Path(state, s"$operator/$partition"), conf)
    } yield () => read(note, folder, StateVersion(version, ids(operator, partition))))
}

private[pillarbox] object StoredOperators {

  /** The notes of the operators by their numbers, in order. */
  def in(state: Path, conf: Configuration): Seq[(Long, OperatorNote)] =
    numbersIn(state, conf).flatMap { number =>
      OperatorNote.find(new Path(state, number.toString), conf).map(number -> _)
    }

  /** The same as they were at a version, without those that the query had no more. */
  def at(state: Path, version: Long, conf: Configuration): Seq[(Long, OperatorNote)] =
    in(state, conf)
      .map { case (number, note) => number -> note.at(version) }
      .filterNot(_._2.isGone(version))

  /** The numbers of the operators in a folder of state, or of the partitions in an operator's, in order. */
  def numbersIn(folder: Path, conf: Configuration): Seq[Long] = {
    val files = folder.getFileSystem(conf)
    val folders = if (files.exists(folder)) files.listStatus(folder).toSeq.filter(_.isDirectory) else Nil
    folders.flatMap(_.getPath.getName.toLongOption).sorted
  }
}
