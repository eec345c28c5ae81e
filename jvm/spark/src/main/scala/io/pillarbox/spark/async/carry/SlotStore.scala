package io.pillarbox.spark.async.carry

import java.io.OutputStream

import io.pillarbox.queue.CloseableIterator
import io.pillarbox.spark.checkpoint._
import io.pillarbox.spark.state.StateMaintenance
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * The versions of one slot on the checkpoint file system. Each is one file, and whole: no version needs
 * another one's. Each attempt of a task writes a file of its own.
 *
 * @param since up to this version a slot without a file holds nothing: there were fewer slots
 */
private[carry] final class SlotStore(folder: StateFolder, format: SlotStateFormat, since: Long = 0) {

  /** The results of a version, one by one; the file's checksum is compared behind the last. To be closed. */
  def results(version: StateVersion): CloseableIterator[UnsafeRow] =
    if (isEmpty(version)) CloseableIterator.of(Iterator.empty)
    else {
      val file = fileOf(version)
      val source = folder.pathOf(file).toString
      val in = folder.open(file)
      val reader = new StateFileFormat.Reader(in, source)
      new SlotStore.StoredResults(format.results(reader.nextSection()), reader, () => in.close())
    }

  /** A version without its results. */
  def state(version: StateVersion): SlotState =
    if (isEmpty(version)) SlotState.Empty else read(fileOf(version))

  private def isEmpty(version: StateVersion) = version.id.isEmpty && version.number <= since

  /**
   * Returns what the earliest attempt of this run of the query has written of a version, with its id, if any
   * has.
   *
   * @param run the run's number; without one there is nothing to find
   */
  def knownOf(version: Long, run: Option[Long], runId: String): Option[(String, SlotReport)] = {
    val mine = for {
      number <- run.toSeq
      file <- folder.list().filter(_.version == version)
      id <- file.id
      attempt <- Attempt.of(id) if attempt.run == number
    } yield id
    mine
      .map(id => id -> state(StateVersion(version, Some(id))))
      .filter(_._2.runId == runId)
      .minByOption { case (id, _) => Option(id) }(Attempt.oldestFirst)
      .map { case (id, state) => id -> state.report }
  }

  /**
   * Writes a version.
   *
   * @param content writes the results to the stream that it is given, and gives the rest
   */
  def write(version: StateVersion, base: StateVersion)(content: OutputStream => SlotState): Unit =
    folder.write(fileOf(version)) { out =>
      var state: SlotState = null
      val header = StateFileFormat.Header(version.id.get, base.id)
      StateFileFormat.write(out, header)(results => state = content(results))(format.write(_, state))
    }: Unit

  /** In the background, now and then: deletes versions that the query can't be restarted from any more. */
  def deleteOld(current: StateVersion, settings: StateSettings): Unit =
    if (current.number % settings.snapshotEvery == 0)
      StateMaintenance.later(s"delete old versions in ${folder.path}") {
        val oldest = current.number - settings.versionsToRetain
        folder.list().filter(_.version < oldest).foreach(folder.delete)
        folder.deleteUnfinished(StateFile.parse(_).exists(_.version < oldest))
      }

  private def fileOf(version: StateVersion): StateFile =
    StateFile(StateFileKind.Carried, version.number, version.id)

  private def read(file: StateFile): SlotState = {
    val source = folder.pathOf(file).toString
    var state: SlotState = null
    folder.read(file)(StateFileFormat.read(_, source)(_ => ())(in => state = format.read(in)))
    state
  }
}

private[carry] object SlotStore {

  private final class StoredResults(
      rows: Iterator[UnsafeRow],
      reader: StateFileFormat.Reader,
      onClose: () => Unit
  ) extends CloseableIterator[UnsafeRow] {
    private var isClosed = false

    override def hasNext: Boolean = !isClosed && {
      val more = reader.orCut(rows.hasNext)
      if (!more) {
        reader.nextSection()
        reader.checkEnd()
        close()
      }
      more
    }

    override def next(): UnsafeRow = reader.orCut(rows.next())

    override def close(): Unit = if (!isClosed) {
      isClosed = true
      onClose()
    }
  }
}
