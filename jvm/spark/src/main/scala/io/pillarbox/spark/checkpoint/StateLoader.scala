package io.pillarbox.spark.checkpoint

import java.io.IOException

import io.pillarbox.spark.keyed.PartitionState
import io.pillarbox.state.{StateException, StateRestoreException}
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
    var reading = Option.empty[StateFile]
    try {
      var id = Option.empty[String]
      files.foreach { file =>
        reading = Some(file)
        id = Some(restore(state, file))
      }
      val deltas = files.count(_.kind == StateFileKind.Delta)
      new VersionedState(state, StateVersion(version.number, id), deltas)
    } catch {
      case e @ (_: StateException | _: IOException) if reading.exists(_.kind == StateFileKind.Snapshot) =>
        state.close()
        StateLoader.log.warn("A snapshot can't be read; loading what it was made from", e)
        withoutSnapshot(e)(load(version, skipped ++ reading))
      case e: Throwable =>
        state.close()
        throw e
    }
  }

  /** If what a snapshot was made from is gone, the snapshot's damage is the error to tell of. */
  private def withoutSnapshot(damage: Throwable)(load: => VersionedState): VersionedState =
    try load
    catch {
      case e: StateRestoreException if e.condition == "STATE_FILE_MISSING" =>
        damage.addSuppressed(e)
        throw damage
    }

  private def restore(state: PartitionState, file: StateFile): String =
    folder.read(file) { in =>
      val source = folder.pathOf(file).toString
      StateFileFormat
        .read(in, source)(state.backend.restore(_, source))(state.timers.restore(_, source))
        .id
    }
}

private object StateLoader {
  val log = LoggerFactory.getLogger(classOf[StateLoader])
}
