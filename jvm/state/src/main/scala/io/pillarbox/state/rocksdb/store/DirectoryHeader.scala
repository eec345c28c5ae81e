package io.pillarbox.state.rocksdb.store

import java.io.IOException
import java.nio.file.{Files, Path}
import java.util.zip.CRC32C

import io.pillarbox.api.{InputView, OutputView}
import io.pillarbox.state.changelog.StreamHeader
import io.pillarbox.state.{StateBackendException, StateRestoreException}

/**
 * The mark that makes a directory a complete checkpoint: a file that describes its column families.
 *
 * {{{
 * file = "PBX2":int format:int crc32c:int header
 * }}}
 *
 * It is written when all else is there, and removed as soon as a backend works in the directory, so a
 * directory that a crash left behind has none.
 */
private[rocksdb] object DirectoryHeader {
  final val Name = "pillarbox-header"

  /** The version of the entries and of this file. */
  final val Format = 5
  private final val Magic = 0x50425832
  private final val PreludeBytes = 12

  /**
   * Reads and removes the header; None if the database is new.
   *
   * @throws StateRestoreException if there are column families but no header, it is damaged, or entries are
   *   kept in another format
   */
  def take(store: RocksDBStore): Option[StreamHeader] = {
    val file = store.directory.resolve(Name)
    if (Files.exists(file)) {
      val header = read(file)
      guarded("remove", file)(Files.delete(file))
      Some(header)
    } else if (store.columnFamilies.forall(_.getID == 0)) None
    else
      throw new StateRestoreException(
        "STATE_DIRECTORY_UNCLEAN",
        s"${store.directory} holds a database that is no complete checkpoint, perhaps left by a crash: " +
          "delete the " +
          "directory, and restore from a snapshot"
      )
  }

  def write(directory: Path, header: StreamHeader): Unit = {
    val content = new OutputView
    header.writeTo(content)
    val out = new OutputView
    out.writeInt(Magic)
    out.writeInt(Format)
    out.writeInt(checksum(content.array, 0, content.length))
    out.writeBytes(content.array, 0, content.length)
    val file = directory.resolve(Name)
    guarded("write", file)(Files.write(file, out.toByteArray)): Unit
  }

  private def read(file: Path): StreamHeader = {
    val bytes = guarded("read", file)(Files.readAllBytes(file))
    val in = new InputView(bytes)
    if (bytes.length < PreludeBytes || in.readInt() != Magic) throw damaged(file)
    val format = in.readInt()
    if (format != Format) throw StateRestoreException.otherFormat(s"$file", format, Format)
    if (in.readInt() != checksum(bytes, PreludeBytes, bytes.length - PreludeBytes)) throw damaged(file)
    StreamHeader.readFrom(in)
  }

  private def checksum(bytes: Array[Byte], offset: Int, length: Int): Int = {
    val checksum = new CRC32C
    checksum.update(bytes, offset, length)
    checksum.getValue.toInt
  }

  private def damaged(file: Path): StateRestoreException = new StateRestoreException(
    "STATE_FILE_CORRUPT",
    s"$file is damaged. Restore from another snapshot; this one can't be trusted"
  )

  private def guarded[A](what: String, file: Path)(action: => A): A =
    try action
    catch {
      case e: IOException =>
        throw new StateBackendException(
          "STATE_STORE_FAILED",
          s"Could not $what $file: ${e.getMessage}. Check that the directory is there and is not full",
          e
        )
    }
}
