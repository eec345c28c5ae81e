package io.pillarbox.spark.checkpoint

import io.pillarbox.spark.keyed.PartitionState
import io.pillarbox.state.StateException
import org.slf4j.LoggerFactory

/**
 * Builds the state of a version from files.
 *
 * A damaged snapshot is passed over if the deltas before and after it are still there; a damaged delta is an error that
 * names the file.
 *
 * @param empty
 *   makes empty state
 */
final class StateLoader(folder: StateFolder, empty: () => PartitionState) {
  private val history = new StateHistory(folder)

  /** @throws StateException if a file is missing, damaged, or written by something else */
  def load(version: StateVersion): VersionedState = load(version, Set.empty)

  private def load(version: StateVersion, skipped: Set[StateFile]): VersionedState = {
    val files = history.pathTo(version, skipped)
    val state = empty()
    try {
      var id = Option.empty[String]
      files.foreach(file => id = Some(restore(state, file)))
      val deltas = files.count(_.kind == StateFileKind.Delta)
      new VersionedState(state, StateVersion(version.number, id), deltas)
    } catch {
      case damaged: StateException if isSnapshot(files, damaged) =>
        state.close()
        StateLoader.log.warn(s"A snapshot can't be read; loading what it was made from: ${damaged.getMessage}")
        load(version, skipped + files.head)
      case e: Throwable =>
        state.close()
        throw e
    }
  }

  private def restore(state: PartitionState, file: StateFile): String =
    folder.read(file) { in =>
      val source = folder.pathOf(file).toString
      StateFileFormat
        .read(in, source)(state.backend.restore(_, source))(state.timers.restore(_, source))
        .id
    }

  /** Whether it was the snapshot that could not be read. */
  private def isSnapshot(files: Seq[StateFile], error: StateException): Boolean =
    files.headOption.exists(first =>
      first.kind == StateFileKind.Snapshot && error.condition == "STATE_FILE_CORRUPT" &&
        error.getMessage.contains(first.name)
    )
}

private object StateLoader {
  val log = LoggerFactory.getLogger(classOf[StateLoader])
}
