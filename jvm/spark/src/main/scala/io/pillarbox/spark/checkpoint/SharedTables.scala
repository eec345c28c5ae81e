package io.pillarbox.spark.checkpoint

import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.file.{Files, Path => LocalPath}
import java.util.UUID
import java.util.zip.{CRC32C, CheckedInputStream}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * The database files of a partition that its snapshots share, in a folder beside them.
 *
 * A file has a unique name that begins with the version it was written for, never changes, and is deleted
 * when no snapshot has it any more, as is one that a crash has left behind.
 */
private[pillarbox] final class SharedTables(partition: Path, conf: Configuration) {
  private val folder = new StateFolder(new Path(partition, SharedTables.Folder), conf)

  /** Brings a local file into the checkpoint: by a hard link on one file system, else by a copy. */
  def add(file: LocalPath, version: Long): SharedFile = {
    val name = s"$version-${UUID.randomUUID()}.sst"
    if (folder.linkFrom(file, name)) {
      val (bytes, checksum) = SharedTables.contentOf(file)
      SharedFile(file.getFileName.toString, name, bytes, checksum)
    } else copy(file, name)
  }

  private def copy(file: LocalPath, name: String): SharedFile = {
    val in = new CheckedInputStream(Files.newInputStream(file), new CRC32C)
    try {
      val bytes = folder.writeNamed(name)(out => in.transferTo(out): Unit)
      SharedFile(file.getFileName.toString, name, bytes, in.getChecksum.getValue.toInt)
    } finally in.close()
  }

  /**
   * Brings a file into a local folder, by a hard link on one file system, else by a copy. All of it is read.
   *
   * @param source the snapshot that has it
   * @throws StateRestoreException if the file is missing or has changed
   */
  def fetch(file: SharedFile, into: LocalPath, source: String): Unit = {
    val target = into.resolve(file.local)
    if (folder.linkTo(file.shared, target)) {
      val (bytes, checksum) = SharedTables.contentOf(target)
      check(file, bytes, checksum)
    } else folder.readNamed(file.shared, source)(in => copy(in, file, target))
  }

  /** Deletes old files outside `used`; those from `version` on may belong to an unfinished snapshot. */
  def deleteUnused(version: Long, used: => Set[String]): Unit = {
    def isOld(name: String) = SharedTables.versionOf(name).exists(_ < version)
    val old = folder.listNames().filter(isOld)
    if (old.nonEmpty) {
      val needed = used
      old.filterNot(needed).foreach(folder.deleteNamed)
    }
    folder.deleteUnfinished(isOld)
  }

  private def copy(in: InputStream, file: SharedFile, to: LocalPath): Unit = {
    val checked = new CheckedInputStream(in, new CRC32C)
    val bytes = Files.copy(checked, to)
    check(file, bytes, checked.getChecksum.getValue.toInt)
  }

  private def check(file: SharedFile, bytes: Long, checksum: Int): Unit =
    if (bytes != file.bytes || checksum != file.checksum)
      throw StateFileFormat.damaged(
        folder.pathOfNamed(file.shared).toString,
        f"it has $bytes bytes with checksum $checksum%08x and should have ${file.bytes} with " +
          f"${file.checksum}%08x"
      )
}

private object SharedTables {
  final val Folder = "tables"
  private final val BufferBytes = 1 << 18
  private val Name = """(\d+)-[0-9a-f-]+\.sst""".r

  /** Returns the size of a local file and its CRC-32C. */
  def contentOf(file: LocalPath): (Long, Int) = {
    val in = Files.newByteChannel(file)
    try {
      val (buffer, checksum) = (ByteBuffer.allocateDirect(BufferBytes), new CRC32C)
      while (in.read(buffer.clear()) >= 0) checksum.update(buffer.flip())
      (in.position, checksum.getValue.toInt)
    } finally in.close()
  }

  /** Returns None for other files. */
  def versionOf(name: String): Option[Long] = name match {
    case Name(version) => version.toLongOption
    case _ => None
  }
}
