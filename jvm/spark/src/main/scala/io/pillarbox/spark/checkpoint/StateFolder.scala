package io.pillarbox.spark.checkpoint

import java.io.{FileNotFoundException, InputStream, OutputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/**
 * The folder of one partition's state on the checkpoint file system. A file is there as a whole or not at all.
 *
 * One object for a task; several folders objects on one path may be used at the same time.
 */
final class StateFolder(val path: Path, conf: Configuration) {
  private lazy val files = CheckpointFileManager.create(path, conf)

  /** All files of state, in no order; empty if the folder is not there. */
  def list(): Seq[StateFile] =
    try
      files
        .list(path)
        .toSeq
        .filterNot(_.isDirectory)
        .flatMap(status => StateFile.parse(status.getPath.getName))
    catch { case _: FileNotFoundException => Nil }

  def exists(file: StateFile): Boolean = files.exists(pathOf(file))

  def pathOf(file: StateFile): Path = new Path(path, file.name)

  /** @throws java.io.FileNotFoundException if it is not there */
  def read[A](file: StateFile)(use: InputStream => A): A = {
    val in = files.open(pathOf(file))
    try use(in)
    finally in.close()
  }

  /** Writes a file, in place of one that has the same name; how many bytes it has. Nothing is there if it throws. */
  def write(file: StateFile)(content: OutputStream => Unit): Long = {
    files.mkdirs(path)
    val out = files.createAtomic(pathOf(file), overwriteIfPossible = true)
    try {
      content(out)
      val size = out.getPos
      out.close()
      size
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }

  /** No-op if it is not there. */
  def delete(file: StateFile): Unit = files.delete(pathOf(file))
}
