package io.pillarbox.spark.checkpoint

import scala.collection.mutable

import io.pillarbox.state.StateRestoreException

/**
 * Which files lead to a version, and which no version needs any more.
 *
 * A snapshot counts only if it has the id of the delta of its version: one that an attempt took whose delta was then
 * replaced by another attempt's (checkpoint format 1) is of no use.
 */
final class StateHistory(folder: StateFolder) {

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
    var number = version.number
    var id = version.id
    while (number > 0) {
      val delta = StateFile(StateFileKind.Delta, number, id)
      val snapshot = StateFile(StateFileKind.Snapshot, number, id)
      if (there(snapshot) && (!there(delta) || idOf(snapshot) == idOf(delta))) {
        path.prepend(snapshot)
        number = 0
      } else if (there(delta)) {
        path.prepend(delta)
        if (id.isDefined) id = header(delta).base
        number -= 1
      } else throw missing(version, delta)
    }
    path.toSeq
  }

  /** Deletes what no version from `oldest` on needs: all before the newest snapshot up to it. */
  def deleteBefore(oldest: Long): Unit = {
    val there = folder.list()
    val snapshots = there.filter(file => file.kind == StateFileKind.Snapshot && file.version <= oldest)
    if (snapshots.nonEmpty) {
      val first = snapshots.map(_.version).max
      there.filter(_.version < first).foreach(folder.delete)
    }
  }

  private def idOf(file: StateFile): String = header(file).id

  private def header(file: StateFile): StateFileFormat.Header =
    folder.read(file)(StateFileFormat.readHeader(_, folder.pathOf(file).toString))

  private def missing(version: StateVersion, file: StateFile) = new StateRestoreException(
    "STATE_FILE_MISSING",
    s"State of version $version needs ${folder.pathOf(file)}, which is not there. Restore the checkpoint from a " +
      "backup, or start the query with a new one"
  )
}
