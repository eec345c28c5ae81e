package io.pillarbox.spark.async.carry

import io.pillarbox.spark.checkpoint.{StateFolder, StateHistory, StateVersion}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.pillarbox.QueryState

/**
 * Finds out whether a checkpoint has calls in flight or results that wait, so that a restarted query goes on
 * with them without input. On the driver.
 */
private[spark] object CarriedCalls extends QueryState {

  override def isOurs(operator: Path, conf: Configuration): Boolean =
    CarryNote.find(operator, conf).isDefined

  override def due(
      state: Path,
      version: Long,
      ids: (Long, Int) => Option[String],
      conf: Configuration
  ): QueryState.Due = {
    val any = operators(state, conf).exists { case (operator, note) =>
      (0 until note.slots).exists { slot =>
        val folder = new StateFolder(new Path(state, s"$operator/$slot"), conf)
        val format =
          new SlotStateFormat(note.input.length, note.answers.length, UnsafeProjection.create(note.answers))
        val committed = new StateHistory(folder).accepted(StateVersion(version, ids(operator, slot)))
        val report = new SlotStore(folder, format).state(committed).report
        report.results > 0 || report.inFlight > 0
      }
    }
    (_, _) => any
  }

  /** The operators with carry-over in a query's folder of state. */
  def operators(state: Path, conf: Configuration): Seq[(Long, CarryNote)] = {
    val files = state.getFileSystem(conf)
    val folders =
      if (files.exists(state)) files.listStatus(state).toSeq.filter(_.isDirectory).map(_.getPath) else Nil
    for {
      folder <- folders
      operator <- folder.getName.toLongOption
      note <- CarryNote.find(folder, conf)
    } yield operator -> note
  }
}
