package io.pillarbox.metered.journal

import java.io._
import java.nio.file.StandardCopyOption.ATOMIC_MOVE
import java.nio.file.{Files, NoSuchFileException, NotDirectoryException, Path}

import scala.jdk.CollectionConverters._

/**
 * A folder of a mounted file system. Written bytes outlive the process at once, and the machine as soon as
 * the system has written them out.
 *
 * It uses no channels: the interrupt of one task would close a channel that many share.
 */
private[pillarbox] final class LocalJournalFiles(folder: Path) extends JournalFiles {

  override def list(): Seq[JournalFile] =
    try {
      val files = Files.list(folder)
      try files.iterator.asScala.flatMap(fileOf).toList
      finally files.close()
    } catch {
      case _: NoSuchFileException => Nil
      case broken: UncheckedIOException => throw broken.getCause
    }

  private def fileOf(path: Path): Option[JournalFile] = {
    val file: File = path.toFile
    Option.when(file.isFile)(JournalFile(file.getName, file.length, file.lastModified))
  }

  override def open(name: String): JournalInput = new JournalInput {
    private val file =
      try new RandomAccessFile(folder.resolve(name).toFile, "r")
      catch { case refused: FileNotFoundException if exists(name) => throw notOpened(refused) }

    override def read(position: Long, into: Array[Byte], offset: Int, length: Int): Int = {
      file.seek(position)
      file.read(into, offset, length)
    }

    override def close(): Unit = file.close()
  }

  override def create(name: String): JournalOutput = {
    if (!Files.isDirectory(folder)) Files.createDirectories(folder): Unit
    if (!Files.isDirectory(folder)) throw new NotDirectoryException(folder.toString)
    new JournalOutput {
      private val file =
        try new FileOutputStream(folder.resolve(name).toFile)
        catch { case refused: FileNotFoundException => throw notOpened(refused) }

      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
        file.write(bytes, offset, length)

      override def persist(): Boolean = true

      override def sync(): Unit = file.getFD.sync()

      override def close(): Unit = file.close()
    }
  }

  /** Java has one exception for all files that can't be opened: it says that they are not there. */
  private def notOpened(refused: FileNotFoundException) = new IOException(refused.getMessage, refused)

  override def exists(name: String): Boolean = folder.resolve(name).toFile.exists

  override def rename(from: String, to: String): Unit =
    try Files.move(folder.resolve(from), folder.resolve(to), ATOMIC_MOVE): Unit
    catch { case e: NoSuchFileException => throw new FileNotFoundException(e.getMessage) }

  override def delete(name: String): Unit = Files.deleteIfExists(folder.resolve(name)): Unit
}
