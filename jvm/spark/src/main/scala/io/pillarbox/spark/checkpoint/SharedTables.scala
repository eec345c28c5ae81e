package io.pillarbox.spark.checkpoint

import java.io.InputStream
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

  /** Copies a local file into the checkpoint. */
  def add(file: LocalPath, version: Long): SharedFile = {
    val name = s"$version-${UUID.randomUUID()}.sst"
    val in = new CheckedInputStream(Files.newInputStream(file), new CRC32C)
    try {
      val bytes = folder.writeNamed(name)(out => in.transferTo(out): Unit)
      SharedFile(file.getFileName.toString, name, bytes, in.getChecksum.getValue.toInt)
    } finally in.close()
  }

  /**
   * Copies a file into a local folder.
   *
   * @param source the snapshot that has it
   * @throws StateRestoreException if the file is missing or has changed
   */
  def fetch(file: SharedFile, into: LocalPath, source: String): Unit = {
    val path = folder.pathOfNamed(file.shared)
    folder.readNamed(file.shared, source)(in => copy(in, file, into.resolve(file.local), path))
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

  private def copy(in: InputStream, file: SharedFile, to: LocalPath, path: Path): Unit = {
    val checked = new CheckedInputStream(in, new CRC32C)
    val bytes = Files.copy(checked, to)
    val checksum = checked.getChecksum.getValue.toInt
    if (bytes != file.bytes || checksum != file.checksum)
      throw StateFileFormat.damaged(
        path.toString,
        f"it has $bytes bytes with checksum $checksum%08x and should have ${file.bytes} with " +
          f"${file.checksum}%08x"
      )
  }
}

private object SharedTables {
  final val Folder = "tables"
  private val Name = """(\d+)-[0-9a-f-]+\.sst""".r

  /** Returns None for other files. */
  def versionOf(name: String): Option[Long] = name match {
    case Name(version) => version.toLongOption
    case _ => None
  }
}
