package io.pillarbox.async.journal

import java.io.{File, FileOutputStream, RandomAccessFile}
import java.nio.file.{Files, NoSuchFileException, NotDirectoryException, Path}

import scala.jdk.CollectionConverters._

/**
 * A folder of a file system that is mounted here. What was written outlives the process at once, and the
 * machine as soon as the system has written it out.
 *
 * Without channels: one that many tasks share would be closed by the interrupt of one of them.
 */
private[pillarbox] final class LocalJournalFiles(folder: Path) extends JournalFiles {

  override def list(): Seq[JournalFile] =
    try {
      val files = Files.list(folder)
      try files.iterator.asScala.flatMap(fileOf).toList
      finally files.close()
    } catch { case _: NoSuchFileException => Nil }

  private def fileOf(path: Path): Option[JournalFile] = {
    val file: File = path.toFile
    Option.when(file.isFile)(JournalFile(file.getName, file.length, file.lastModified))
  }

  override def open(name: String): JournalInput = new JournalInput {
    private val file = new RandomAccessFile(folder.resolve(name).toFile, "r")

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
      private val file = new FileOutputStream(folder.resolve(name).toFile)

      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
        file.write(bytes, offset, length)

      override def persist(): Boolean = true

      override def close(): Unit = file.close()
    }
  }

  override def delete(name: String): Unit = Files.deleteIfExists(folder.resolve(name)): Unit
}
