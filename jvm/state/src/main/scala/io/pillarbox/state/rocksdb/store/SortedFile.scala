package io.pillarbox.state.rocksdb.store

import java.nio.file.{Files, Path}
import java.nio.{ByteBuffer, ByteOrder}
import java.util

import org.rocksdb._

/**
 * Entries that a column family takes as a file of its own: they come in the order of their keys, so none of
 * them is sorted or goes through a write buffer. One thread.
 *
 * The database timestamps values with the time in seconds when they are written, at their end; so does this.
 *
 * @param path the file, which must not exist yet; it is gone after [[close]]
 */
private[rocksdb] final class SortedFile(
    db: RocksDB,
    family: ColumnFamilyHandle,
    path: Path,
    tables: TableFormatConfig
) extends AutoCloseable {
  private val environment = new EnvOptions()
  private val options = new Options().setTableFormatConfig(tables)
  private val writer = new SstFileWriter(environment, options)
  private val now = (System.currentTimeMillis / 1000).toInt
  private var key = ByteBuffer.allocateDirect(256)
  private var value = newValue(1024)
  private var isOpen = false

  def put(keyBytes: Array[Byte], valueBytes: Array[Byte]): Unit = {
    if (!isOpen) {
      writer.open(path.toString)
      isOpen = true
    }
    if (key.capacity < keyBytes.length) key = ByteBuffer.allocateDirect(keyBytes.length * 2)
    if (value.capacity < valueBytes.length + Integer.BYTES) value = newValue(valueBytes.length * 2)
    key.clear().put(keyBytes).flip()
    value.clear().put(valueBytes).putInt(now).flip()
    writer.put(key, value)
  }

  /** Gives the entries to the column family. */
  def ingest(): Unit = if (isOpen) {
    writer.finish()
    val how = new IngestExternalFileOptions().setMoveFiles(true)
    try db.ingestExternalFile(family, util.List.of(path.toString), how)
    finally how.close()
  }

  override def close(): Unit = {
    writer.close()
    options.close()
    environment.close()
    Files.deleteIfExists(path): Unit
  }

  private def newValue(bytes: Int) = ByteBuffer.allocateDirect(bytes).order(ByteOrder.LITTLE_ENDIAN)
}
