package org.apache.spark.sql.pillarbox

import java.io.{BufferedOutputStream, IOException, OutputStream}
import java.nio.file.attribute.BasicFileAttributes
import java.nio.file.{FileVisitResult, Files, NoSuchFileException, Path, Paths, SimpleFileVisitor}

import scala.util.Using

import org.apache.spark.SparkEnv
import org.apache.spark.util.{ShutdownHookManager, Utils}

/** A folder on an executor's local disk. */
final class LocalFolder private[pillarbox] (val path: Path) extends AutoCloseable {

  /** Deletes the folder with its content, also on the interrupted thread of a killed task. Idempotent. */
  override def close(): Unit = {
    // Spark's own function starts a process and waits for it, which an interrupted thread can't.
    if (Files.exists(path)) Files.walkFileTree(path, LocalFolder.Deletion)
    ShutdownHookManager.removeShutdownDeleteDir(path.toFile)
  }
}

private object LocalFolder {

  /** Ignores files that are gone already: a database in the background may delete its files. */
  object Deletion extends SimpleFileVisitor[Path] {
    override def visitFile(file: Path, attributes: BasicFileAttributes): FileVisitResult = delete(file)

    override def postVisitDirectory(folder: Path, problem: IOException): FileVisitResult =
      if (problem == null) delete(folder) else throw problem

    override def visitFileFailed(file: Path, problem: IOException): FileVisitResult = problem match {
      case _: NoSuchFileException => FileVisitResult.CONTINUE
      case other => throw other
    }

    private def delete(path: Path): FileVisitResult = {
      Files.deleteIfExists(path)
      FileVisitResult.CONTINUE
    }
  }
}

/** Folders under `spark.local.dir`, which Spark deletes at the latest when it ends. */
object LocalFolders {

  /** Makes a new, empty folder. */
  def create(purpose: String): LocalFolder = beside(null, purpose)

  /** Makes a new, empty folder on the disk of `folder`, which was made here, so that files can be linked. */
  def beside(folder: Path, purpose: String): LocalFolder = {
    val parent = if (folder == null) root else folder.getParent
    new LocalFolder(Utils.createTempDir(parent.toString, s"pillarbox-$purpose").toPath)
  }

  /** One of the folders that Spark has there for this process, at random. */
  def root: Path = Paths.get(Utils.getLocalDir(SparkEnv.get.conf))

  def write(file: Path)(content: OutputStream => Unit): Unit =
    Using.resource(new BufferedOutputStream(Files.newOutputStream(file), 1 << 16))(content)
}
