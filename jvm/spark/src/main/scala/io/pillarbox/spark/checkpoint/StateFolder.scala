package io.pillarbox.spark.checkpoint

import java.io.{InputStream, OutputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * The folder of one partition's state on the checkpoint file system. A file is there as a whole or not at
 * all.
 *
 * One object for a task; several folders objects on one path may be used at the same time.
 */
private[pillarbox] final class StateFolder(val path: Path, private[spark] val conf: Configuration) {
  private lazy val files = StateFiles.in(path, conf)

  /** All files of state, in no order; empty if the folder is not there. */
  def list(): Seq[StateFile] = listNames().flatMap(StateFile.parse)

  /** The names of all files, whatever they are. */
  private[spark] def listNames(): Seq[String] = files.list()

  def pathOf(file: StateFile): Path = pathOfNamed(file.name)

  private[spark] def pathOfNamed(name: String): Path = new Path(path, name)

  /** @throws java.io.FileNotFoundException if it is not there */
  def read[A](file: StateFile)(use: InputStream => A): A = readNamed(file.name)(use)

  /** Opens a file, for the caller to close; as `read`. */
  def open(file: StateFile): InputStream = files.open(file.name)

  private[spark] def readNamed[A](name: String)(use: InputStream => A): A = {
    val in = files.open(name)
    try use(in)
    finally in.close()
  }

  /**
   * Writes a file, in place of one that has the same name; how many bytes it has. Nothing is there if it
   * throws.
   */
  def write(file: StateFile)(content: OutputStream => Unit): Long = writeNamed(file.name)(content)

  private[spark] def writeNamed(name: String)(content: OutputStream => Unit): Long =
    files.write(name)(content)

  /** No-op if it is not there. */
  def delete(file: StateFile): Unit = deleteNamed(file.name)

  private[spark] def deleteNamed(name: String): Unit = files.delete(name)

  /**
   * Deletes what is left of files whose writer died, where nobody needs the file that it would have been. A
   * writer that lives after all fails.
   */
  private[spark] def deleteUnfinished(isUnneeded: String => Boolean): Unit =
    listNames().filter(StateFiles.unfinished(_).exists(isUnneeded)).foreach(deleteNamed)
}
