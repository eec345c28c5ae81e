package org.apache.spark.sql.pillarbox

import java.nio.file.Path

import org.apache.spark.SparkEnv
import org.apache.spark.util.Utils

/** A folder on an executor's local disk. */
final class LocalFolder private[pillarbox] (val path: Path) extends AutoCloseable {

  /** Deletes it with all that is in it. */
  override def close(): Unit = Utils.deleteRecursively(path.toFile)
}

/** Folders under Spark's local directories (`spark.local.dir`), which Spark deletes at the latest when it ends. */
object LocalFolders {

  /** A new, empty one. */
  def create(purpose: String): LocalFolder =
    new LocalFolder(Utils.createTempDir(Utils.getLocalDir(SparkEnv.get.conf), s"pillarbox-$purpose").toPath)
}
