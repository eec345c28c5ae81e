package io.pillarbox.spark.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.pillarbox.QueryState

/**
 * Finds out when the timers in a checkpoint are due, from the headers of its newest deltas. On the driver.
 *
 * Reads one header a partition, several at a time: as many small reads as Spark does itself when it restarts
 * a query.
 */
private[pillarbox] object StoredTimers extends QueryState {
  override def isOurs(operator: Path, conf: Configuration): Boolean =
    CheckpointNote.find(operator, conf).isDefined

  override def due(
      state: Path,
      version: Long,
      ids: (Long, Int) => Option[String],
      conf: Configuration
  ): QueryState.Due = {
    val due = in(state, version, ids, conf)
    (watermark, time) => due.areDue(DueTimes.watermark(watermark), time)
  }

  /** The earliest timers over all partitions of all operators. */
  def in(
      state: Path,
      version: Long,
      ids: (Long, Int) => Option[String],
      conf: Configuration
  ): DueTimes = {
    val reads = for {
      (operator, note) <- operators(state, conf)
      partition <- 0 until note.partitions
    } yield {
      val folder = new StateFolder(new Path(state, s"$operator/$partition"), conf)
      () => dueTimes(folder, StateVersion(version, ids(operator, partition)))
    }
    InParallel(reads).foldLeft(DueTimes.Never)(_ min _)
  }

  private def operators(state: Path, conf: Configuration): Seq[(Long, CheckpointNote)] = {
    val files = state.getFileSystem(conf)
    val names =
      if (files.exists(state)) files.listStatus(state).toSeq.filter(_.isDirectory).map(_.getPath) else Nil
    for {
      folder <- names
      operator <- folder.getName.toLongOption
      note <- CheckpointNote.find(folder, conf)
    } yield operator -> note
  }

  private def dueTimes(folder: StateFolder, version: StateVersion): DueTimes =
    new StateHistory(folder).header(version).due
}
