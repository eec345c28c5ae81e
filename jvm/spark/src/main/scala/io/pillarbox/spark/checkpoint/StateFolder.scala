package io.pillarbox.spark.checkpoint

import java.io.{FileNotFoundException, InputStream, OutputStream}
import java.nio.file.{Path => LocalPath}

import io.pillarbox.state.StateRestoreException
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * The folder of one partition's state on the checkpoint file system. A file is there as a whole or not at
 * all.
 *
 * One object is for one task; several objects on one path may be used at the same time.
 */
private[pillarbox] final class StateFolder(val path: Path, private[pillarbox] val conf: Configuration) {
  private lazy val files = StateFiles.in(path, conf)

  /** All files of state, in no order; empty if the folder is not there. */
  def list(): Seq[StateFile] = listNames().flatMap(StateFile.parse)

  /** The names of all files, whatever they are. */
  private[pillarbox] def listNames(): Seq[String] = files.list()

  def pathOf(file: StateFile): Path = pathOfNamed(file.name)

  private[pillarbox] def pathOfNamed(name: String): Path = new Path(path, name)

  /** @throws StateRestoreException (STATE_FILE_MISSING) if it is not there */
  def read[A](file: StateFile)(use: InputStream => A): A = readNamed(file.name, "State")(use)

  /** Opens a file, which the caller closes; like `read`. */
  def open(file: StateFile): InputStream = found(file.name, "State")(files.open(file.name))

  /** Like `read`, by the file's name. An error says that `needed` needs the file. */
  private[pillarbox] def readNamed[A](name: String, needed: String)(use: InputStream => A): A =
    found(name, needed) {
      val in = files.open(name)
      try use(in)
      finally in.close()
    }

  /** Some file systems report a missing file when it is opened, others when it is read. */
  private def found[A](name: String, needed: String)(use: => A): A =
    try use
    catch { case gone: FileNotFoundException => throw missing(name, needed, gone) }

  private[pillarbox] def missing(
      name: String,
      needed: String,
      cause: Throwable = null
  ): StateRestoreException =
    new StateRestoreException(
      "STATE_FILE_MISSING",
      s"$needed needs ${pathOfNamed(name)}, which is not there. Restore the checkpoint from a backup, or " +
        "start the query with a new one",
      cause
    )

  /** Begins to write a file, as [[StateFiles.begin]]. */
  def begin(file: StateFile): StateFiles.Unfinished = files.begin(file.name)

  /** Writes a file, also in place of one with its name, and returns its bytes. None is left if it throws. */
  def write(file: StateFile)(content: OutputStream => Unit): Long = writeNamed(file.name)(content)

  private[pillarbox] def writeNamed(name: String)(content: OutputStream => Unit): Long =
    files.write(name)(content)

  /** See [[StateFiles.linkFrom]]. */
  private[pillarbox] def linkFrom(file: LocalPath, name: String): Boolean = files.linkFrom(file, name)

  /** See [[StateFiles.linkTo]]. */
  private[pillarbox] def linkTo(name: String, to: LocalPath): Boolean = files.linkTo(name, to)

  /** Does nothing if there is no file. */
  def delete(file: StateFile): Unit = deleteNamed(file.name)

  private[pillarbox] def deleteNamed(name: String): Unit = files.delete(name)

  /** Deletes the unfinished files of unneeded ones, whose writers died. A writer that still lives fails. */
  private[pillarbox] def deleteUnfinished(isUnneeded: String => Boolean): Unit =
    listNames().filter(StateFiles.unfinished(_).exists(isUnneeded)).foreach(deleteNamed)
}
