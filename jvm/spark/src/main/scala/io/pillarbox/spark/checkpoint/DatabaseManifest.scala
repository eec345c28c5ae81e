package io.pillarbox.spark.checkpoint

import java.io.{DataInputStream, DataOutputStream, InputStream, OutputStream}

/**
 * A file of a database that is kept in the checkpoint, for all snapshots that have it.
 *
 * @param local its name in the database's folder
 * @param shared its name in the checkpoint
 * @param bytes its size
 * @param checksum CRC-32C of its content
 */
private[pillarbox] final case class SharedFile(local: String, shared: String, bytes: Long, checksum: Int)

/**
 * The files of a database: sorted tables, which never change and are shared between snapshots, and the few
 * small files that describe them.
 *
 * It is the content of a [[StateFileFormat]] container, whose checksum covers it; sizes are checked before
 * memory is allocated.
 *
 * @param timersInside true if the timers are in the database; else they are the other part of the container
 */
private[pillarbox] final case class DatabaseManifest(
    timersInside: Boolean,
    tables: Seq[SharedFile],
    small: Seq[(String, Array[Byte])]
) {

  /** The size of the tables, which are all but a few kilobytes of the database. */
  def bytes: Long = tables.map(_.bytes).sum

  def writeTo(stream: OutputStream): Unit = {
    val out = new DataOutputStream(stream)
    out.writeBoolean(timersInside)
    out.writeInt(tables.size)
    tables.foreach { table =>
      out.writeUTF(table.local)
      out.writeUTF(table.shared)
      out.writeLong(table.bytes)
      out.writeInt(table.checksum)
    }
    out.writeInt(small.size)
    small.foreach { case (name, content) =>
      out.writeUTF(name)
      out.writeInt(content.length)
      out.write(content)
    }
    out.flush()
  }
}

private[pillarbox] object DatabaseManifest {

  /** A database of this library has fewer: RocksDB's own limit of open files would be passed long before. */
  private final val MaxFiles = 1 << 20

  /** The limit of a small file. RocksDB's manifest may reach a gigabyte, but a checkpoint has a fresh one. */
  final val MaxSmallBytes: Int = 64 << 20

  /**
   * @param source names the file in errors
   * @throws StateRestoreException if a size or a name is impossible
   */
  def readFrom(stream: InputStream, source: String): DatabaseManifest = {
    val in = new DataInputStream(stream)
    val timersInside = in.readBoolean()
    val tables = Seq.fill(bounded(in.readInt(), MaxFiles, "files", source)) {
      SharedFile(plain(in.readUTF(), source), plain(in.readUTF(), source), in.readLong(), in.readInt())
    }
    val small = Seq.fill(bounded(in.readInt(), MaxFiles, "files", source)) {
      val name = plain(in.readUTF(), source)
      name -> in.readNBytes(bounded(in.readInt(), MaxSmallBytes, "bytes", source))
    }
    DatabaseManifest(timersInside, tables, small)
  }

  private def bounded(size: Int, limit: Int, what: String, source: String): Int =
    if (size >= 0 && size <= limit) size else throw StateFileFormat.damaged(source, s"it lists $size $what")

  /** Returns a name that stays in its folder. */
  private def plain(name: String, source: String): String =
    if (name.nonEmpty && !name.startsWith(".") && name.forall(c => c.isLetterOrDigit || "-_.".contains(c)))
      name
    else throw StateFileFormat.damaged(source, s"it names a file '$name'")
}
