package io.pillarbox.spark.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.apache.spark.sql.pillarbox.Spark41.{CheckpointFileManager, FileSystemBasedCheckpointFileManager}

/**
 * Spark's manager for file systems with `rename` alone. If `rename` refuses to replace a file (Hadoop's local
 * one; HDFS by its specification), Spark's manager silently keeps the old file; this one replaces it.
 *
 * Notes and watermarks are written again under their name. The file is missing for a moment, between two
 * renames.
 */
private final class ReplacingFileManager(path: Path, conf: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, conf) {
  private val system = path.getFileSystem(conf)

  override def renameTempFile(from: Path, to: Path, overwriteIfPossible: Boolean): Unit =
    if (!overwriteIfPossible || !system.rename(from, to)) replace(from, to, overwriteIfPossible)

  private def replace(from: Path, to: Path, overwriteIfPossible: Boolean): Unit = {
    super.renameTempFile(from, to, overwriteIfPossible)
    if (overwriteIfPossible && exists(from)) {
      delete(to)
      super.renameTempFile(from, to, overwriteIfPossible)
      // Another attempt was quicker: this one fails, and is tried again.
      if (exists(from)) throw new FileAlreadyExistsException(to.toString)
    }
  }
}

private[checkpoint] object ReplacingFileManager {

  /** Returns the manager that the session's settings choose for `path`, one that replaces files. */
  def create(path: Path, conf: Configuration): CheckpointFileManager = {
    val chosen = CheckpointFileManager.create(path, conf)
    if (chosen.getClass == classOf[FileSystemBasedCheckpointFileManager]) new ReplacingFileManager(path, conf)
    else chosen
  }
}
