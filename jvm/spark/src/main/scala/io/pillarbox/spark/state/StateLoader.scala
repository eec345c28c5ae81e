package io.pillarbox.spark.state

import java.io.IOException

import io.pillarbox.spark.checkpoint._
import io.pillarbox.state.{StateException, StateRestoreException}
import org.slf4j.LoggerFactory

/**
 * Builds the state of a version from files.
 *
 * A damaged snapshot is passed over if the deltas before and after it still exist; a damaged delta is an
 * error that names the file.
 *
 * @param empty makes empty state
 * @param adopt opens state on the files of a database, which it takes over, or leaves it alone and says None:
 *   then the content goes into empty state
 */
private[pillarbox] final class StateLoader(
    folder: StateFolder,
    empty: () => PartitionState,
    adopt: LocalDatabase => Option[PartitionState] = _ => None
) {
  private val history = new StateHistory(folder)
  private val databases = new DatabaseReader(folder, empty, adopt)

  /** @throws StateException if a file is missing, damaged, or written by something else */
  def load(version: StateVersion): VersionedState = load(version, Set.empty)

  private def load(version: StateVersion, skipped: Set[StateFile]): VersionedState = {
    val files = history.pathTo(version, skipped)
    val loading = new Loading
    try {
      files.foreach(loading.read)
      loading.result.backend.assumeEntries(loading.entries)
      val deltas = files.count(_.kind == StateFileKind.Delta)
      new VersionedState(loading.result, StateVersion(version.number, loading.id), deltas, loading.tables)
    } catch {
      case e @ (_: StateException | _: IOException) if loading.reading.exists(_.kind.isFull) =>
        loading.close()
        StateLoader.log.warn("A snapshot can't be read; loading what it was made from", e)
        withoutSnapshot(e)(load(version, skipped ++ loading.reading))
      case e: Throwable =>
        loading.close()
        throw e
    }
  }

  /** Throws the damage of a snapshot if the files that it was made from are gone. */
  private def withoutSnapshot(damage: Throwable)(load: => VersionedState): VersionedState =
    try load
    catch {
      case e: StateRestoreException if e.condition == "STATE_FILE_MISSING" =>
        damage.addSuppressed(e)
        throw damage
    }

  private final class Loading {
    private var state: PartitionState = _
    var reading = Option.empty[StateFile]
    var id = Option.empty[String]
    var entries = 0L
    var tables = Map.empty[String, SharedFile]

    def read(file: StateFile): Unit = {
      reading = Some(file)
      if (file.kind == StateFileKind.Database) {
        val opened = databases.read(file)
        state = opened.state
        tables = opened.tables
        noted(opened.header)
      } else {
        val header = restore(result, file)
        if (file.kind == StateFileKind.Delta && header.base != id) throw replaced(file, header)
        noted(header)
      }
    }

    private def noted(header: StateFileFormat.Header): Unit = {
      id = Some(header.id)
      entries = header.entries
    }

    /** Changes of list elements go by their numbers, which another attempt may have assigned differently. */
    private def replaced(file: StateFile, header: StateFileFormat.Header) = new StateRestoreException(
      "STATE_FILE_REPLACED",
      s"${folder.pathOf(file)} goes on from the state that attempt ${header.base.getOrElse("none")} of a " +
        "task left, but " +
        s"the file before it is of attempt ${id.getOrElse("none")}: it was written again afterwards. " +
        "Restore the " +
        "checkpoint from a backup, or start the query with a new one"
    )

    def result: PartitionState = {
      if (state == null) state = empty()
      state
    }

    def close(): Unit = if (state != null) state.close()
  }

  private def restore(state: PartitionState, file: StateFile): StateFileFormat.Header =
    folder.read(file) { in =>
      val source = folder.pathOf(file).toString
      StateFileFormat.read(in, source)(state.backend.restore(_, source))(state.timers.restore(_, source))
    }
}

private object StateLoader {
  val log = LoggerFactory.getLogger(classOf[StateLoader])
}
