package io.pillarbox.spark.checkpoint

import java.io.{BufferedOutputStream, FileNotFoundException, InputStream, OutputStream}
import java.nio.file.StandardCopyOption.{ATOMIC_MOVE, REPLACE_EXISTING}
import java.nio.file.{FileSystemException, Files, NoSuchFileException, Path => LocalPath, Paths}
import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.local.LocalFs
import org.apache.hadoop.fs.{CommonPathCapabilities, LocalFileSystem, Path}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.Spark41.CheckpointFileManager

/** The files of one folder on the checkpoint file system, by name. Each is there as a whole or not at all. */
private[pillarbox] trait StateFiles {

  /** The names of all files, in no order; empty if the folder is not there. */
  def list(): Seq[String]

  def exists(name: String): Boolean

  /** @throws java.io.FileNotFoundException if it is not there */
  def open(name: String): InputStream

  /** Begins to write a file, in place of one with the same name, which appears when it is finished. */
  def begin(name: String): StateFiles.Unfinished

  /**
   * Writes a file, in place of one with the same name. There is no file if it throws.
   *
   * @return its size in bytes
   */
  final def write(name: String)(content: OutputStream => Unit): Long = begin(name).finish(content)

  /** Does nothing if there is no file. */
  def delete(name: String): Unit

  /** Makes `file`, which is on the local disk and never changes, a file of this folder. False if it can't. */
  def linkFrom(file: LocalPath, name: String): Boolean = false

  /** Makes a file, which never changes, one on the local disk as well, by the name `to`. False if it can't. */
  def linkTo(name: String, to: LocalPath): Boolean = false
}

private[pillarbox] object StateFiles {

  /** A file that is being written. For one thread; one of the two methods is called, once. */
  trait Unfinished {

    /**
     * Writes what is in it, and gives it its name. There is no file if it throws.
     *
     * @return its size in bytes
     */
    def finish(content: OutputStream => Unit): Long

    /** Leaves nothing behind. */
    def cancel(): Unit
  }

  /** A file of which nothing is done before there is something to write. */
  def writtenAtEnd(write: (OutputStream => Unit) => Long): Unfinished = new Unfinished {
    override def finish(content: OutputStream => Unit): Long = write(content)
    override def cancel(): Unit = ()
  }

  /** All of Spark's managers give these names; Hadoop's local file system adds a file of checksums. */
  private val NameOfUnfinished =
    """\.{1,2}(.+)\.[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:\.TID\d+)?\.tmp(?:\.crc)?""".r

  /** Returns the final name of a file that is being written, or whose writer died; None for others. */
  def unfinished(name: String): Option[String] = name match {
    case NameOfUnfinished(finished) => Some(finished)
    case _ => None
  }

  /** Uses the means of the checkpoint's file system, unless the user has configured others. */
  def in(folder: Path, conf: Configuration): StateFiles =
    if (isPlainLocal(folder, conf)) new LocalStateFiles(Paths.get(folder.toUri))
    else if (isObjectStore(folder, conf)) new ObjectStateFiles(folder, folder.getFileSystem(conf))
    else new ManagedStateFiles(folder, ReplacingFileManager.create(folder, conf))

  /** Decides by the configuration: the class in use depends on the class path, as Hive's jar wraps it. */
  def isPlainLocal(folder: Path, conf: Configuration): Boolean = {
    def is(key: String, default: Class[_]) = conf.get(key, default.getName) == default.getName
    folder.toUri.getScheme == "file" && isManagerOfSpark(conf) &&
    is("fs.file.impl", classOf[LocalFileSystem]) && is("fs.AbstractFileSystem.file.impl", classOf[LocalFs])
  }

  /** True if a file appears as a whole when its stream is closed, and not at all if the stream is aborted. */
  private def isObjectStore(folder: Path, conf: Configuration): Boolean =
    isManagerOfSpark(conf) && folder
      .getFileSystem(conf)
      .hasPathCapability(folder, CommonPathCapabilities.ABORTABLE_STREAM)

  /** True if the user has chosen no manager. */
  private def isManagerOfSpark(conf: Configuration): Boolean =
    conf.get(SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key) == null
}

/** Any file system on which Spark can keep checkpoints. */
private final class ManagedStateFiles(folder: Path, files: CheckpointFileManager) extends StateFiles {

  override def list(): Seq[String] =
    try files.list(folder).toSeq.filterNot(_.isDirectory).map(_.getPath.getName)
    catch { case _: FileNotFoundException => Nil }

  override def exists(name: String): Boolean = files.exists(path(name))

  override def open(name: String): InputStream = files.open(path(name))

  /** Another thread creates the file, as that takes a while where the file system is far. */
  override def begin(name: String): StateFiles.Unfinished = {
    val opened = new EarlyFile(() => create(name))
    new StateFiles.Unfinished {
      override def finish(content: OutputStream => Unit): Long =
        try {
          content(opened)
          opened.finish()
        } catch {
          case e: Throwable =>
            opened.cancel()
            throw e
        }

      override def cancel(): Unit = opened.cancel()
    }
  }

  /** The folder is made only where it is missing. */
  private def create(name: String): CheckpointFileManager.CancellableFSDataOutputStream = {
    def out() = files.createAtomic(path(name), overwriteIfPossible = true)
    try out()
    catch {
      case _: FileNotFoundException =>
        files.mkdirs(folder)
        out()
    }
  }

  override def delete(name: String): Unit = files.delete(path(name))

  private def path(name: String) = new Path(folder, name)
}

/**
 * The local file system, or one that is mounted into it. Hadoop starts a process for each of the about ten
 * questions of one rename, which takes longer than a small commit; and files of state have their own
 * checksums, so they need no second file with one.
 */
private final class LocalStateFiles(folder: LocalPath) extends StateFiles {

  override def list(): Seq[String] =
    try {
      val files = Files.list(folder)
      try files.iterator.asScala.filterNot(Files.isDirectory(_)).map(_.getFileName.toString).toList
      finally files.close()
    } catch { case _: NoSuchFileException => Nil }

  override def exists(name: String): Boolean = Files.exists(folder.resolve(name))

  override def open(name: String): InputStream =
    try Files.newInputStream(folder.resolve(name))
    catch {
      case e: NoSuchFileException =>
        throw new FileNotFoundException(s"${e.getFile} does not exist").initCause(e)
    }

  override def begin(name: String): StateFiles.Unfinished = StateFiles.writtenAtEnd(put(name, _))

  /** Writes a hidden file, which then gets its name. */
  private def put(name: String, content: OutputStream => Unit): Long = {
    val written = folder.resolve(s".$name.${UUID.randomUUID}.tmp")
    try {
      val out = new BufferedOutputStream(create(written), LocalStateFiles.BufferBytes)
      try content(out)
      finally out.close()
      val size = Files.size(written)
      Files.deleteIfExists(checksumOf(name))
      Files.move(written, folder.resolve(name), ATOMIC_MOVE, REPLACE_EXISTING)
      size
    } catch {
      case e: Throwable =>
        Files.deleteIfExists(written)
        throw e
    }
  }

  private def create(file: LocalPath): OutputStream =
    try Files.newOutputStream(file)
    catch {
      case _: NoSuchFileException =>
        Files.createDirectories(folder)
        Files.newOutputStream(file)
    }

  override def linkFrom(file: LocalPath, name: String): Boolean = {
    Files.createDirectories(folder)
    LocalStateFiles.link(folder.resolve(name), file)
  }

  override def linkTo(name: String, to: LocalPath): Boolean = LocalStateFiles.link(to, folder.resolve(name))

  override def delete(name: String): Unit = {
    Files.deleteIfExists(folder.resolve(name))
    Files.deleteIfExists(checksumOf(name)): Unit
  }

  /** The checksums that Hadoop wrote beside an earlier file of that name, and that the new one fails. */
  private def checksumOf(name: String): LocalPath = folder.resolve(s".$name.crc")
}

private object LocalStateFiles {
  private final val BufferBytes = 1 << 16

  /** False between file systems, and where there are no hard links or this user may not make them. */
  private def link(name: LocalPath, file: LocalPath): Boolean =
    try {
      Files.createLink(name, file)
      true
    } catch { case _: FileSystemException | _: UnsupportedOperationException => false }
}
