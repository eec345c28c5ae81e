package io.pillarbox.spark.checkpoint

import java.io.{FileNotFoundException, IOException}

import scala.annotation.tailrec
import scala.collection.mutable

import io.pillarbox.state.{StateException, StateRestoreException}

/**
 * Which files lead to a version, and which no version needs any more.
 *
 * A snapshot counts only if it has the id of the delta of its version: one that an attempt took whose delta
 * was then replaced by another attempt's (checkpoint format 1) is of no use.
 */
private[pillarbox] final class StateHistory(folder: StateFolder) {

  /**
   * The files to read for `version`, in order: at most one snapshot, then deltas.
   *
   * @param skipped
   *   snapshots that turned out to be damaged
   * @throws StateRestoreException
   *   if a file is missing
   */
  def pathTo(version: StateVersion, skipped: Set[StateFile] = Set.empty): Seq[StateFile] = {
    val there = folder.list().toSet -- skipped
    val path = mutable.ArrayDeque.empty[StateFile]
    var at = version
    while (at.number > 0) {
      val delta = deltaOf(at)
      snapshotOf(at, there) match {
        case Some(snapshot) =>
          path.prepend(snapshot)
          at = StateVersion.Empty
        case None if there(delta) =>
          path.prepend(delta)
          at = before(at)
        case None => throw missing(version, delta)
      }
    }
    path.toSeq
  }

  /**
   * Deletes what no version from `oldest` on needs that led to `current`: all before the snapshot that
   * `oldest` is loaded from. Snapshots of attempts that lost count for nothing here.
   */
  def deleteBefore(oldest: Long, current: StateVersion, tables: SharedTables): Unit = if (oldest > 0) {
    pathTo(ancestor(current, oldest)).headOption.filter(_.kind.isFull).foreach { first =>
      val (old, kept) = folder.list().partition(_.version < first.version)
      old.foreach(folder.delete)
      folder.deleteUnfinished(StateFile.parse(_).exists(_.version < first.version))
      tables.deleteUnused(
        first.version,
        kept.filter(_.kind == StateFileKind.Database).flatMap(tablesOf).toSet
      )
    }
  }

  /**
   * The id of the attempt that wrote a version's delta.
   *
   * @throws StateRestoreException
   *   if the file is not there or damaged
   */
  def idOf(version: StateVersion): String =
    try header(deltaOf(version)).id
    catch { case _: FileNotFoundException => throw missing(version, deltaOf(version)) }

  @tailrec
  private def ancestor(version: StateVersion, number: Long): StateVersion =
    if (version.number <= number) version
    else if (version.id.isEmpty) StateVersion(number, None)
    else ancestor(before(version), number)

  /** The version that a version's delta was made from. */
  private def before(version: StateVersion): StateVersion =
    StateVersion(version.number - 1, version.id.flatMap(_ => header(deltaOf(version)).base))

  private def snapshotOf(version: StateVersion, there: Set[StateFile]): Option[StateFile] = {
    val delta = deltaOf(version)
    StateFileKind.full
      .map(StateFile(_, version.number, version.id))
      .find(file => there(file) && (file.id.isDefined || !there(delta) || isOfOneAttempt(file, delta)))
  }

  /** True too where that can't be read: the reader of the file then tells of the damage. */
  private def isOfOneAttempt(snapshot: StateFile, delta: StateFile): Boolean =
    try header(snapshot).id == header(delta).id
    catch { case _: StateException | _: IOException => true }

  private def deltaOf(version: StateVersion): StateFile =
    StateFile(StateFileKind.Delta, version.number, version.id)

  private def tablesOf(file: StateFile): Seq[String] = {
    val source = folder.pathOf(file).toString
    var found = Seq.empty[String]
    folder.read(file)(
      StateFileFormat.read(_, source)(in =>
        found = DatabaseManifest.readFrom(in, source).tables.map(_.shared)
      )(_ => ())
    )
    found
  }

  private def header(file: StateFile): StateFileFormat.Header =
    folder.read(file)(StateFileFormat.readHeader(_, folder.pathOf(file).toString))

  private def missing(version: StateVersion, file: StateFile) = new StateRestoreException(
    "STATE_FILE_MISSING",
    s"State of version $version needs ${folder.pathOf(file)}, which is not there. Restore the checkpoint " +
      "from a " +
      "backup, or start the query with a new one"
  )
}
