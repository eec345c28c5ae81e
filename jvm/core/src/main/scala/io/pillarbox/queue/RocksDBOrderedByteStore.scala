package io.pillarbox.queue

import java.nio.charset.StandardCharsets.UTF_8

import org.rocksdb.WriteOptions
import org.rocksdb.{
  ColumnFamilyHandle,
  ReadOptions,
  RocksDB,
  RocksDBException,
  RocksIterator,
  Slice,
  WriteBatch
}

/**
 * A column family of RocksDB as an ordered set of keys; the values are empty.
 *
 * Writes are collected in [[RocksDBWriteBuffer]] and reach the database a batch at a time: when `batchBytes` are
 * full, before a scan, and at `flush`. Scans have an upper bound, so they never walk through what other key groups
 * deleted. Database, column family and options stay the caller's, who closes them after the last use of this.
 */
final class RocksDBOrderedByteStore(
    db: RocksDB,
    columnFamily: ColumnFamilyHandle,
    readOptions: ReadOptions,
    writeOptions: WriteOptions,
    batchBytes: Int = RocksDBOrderedByteStore.DefaultBatchBytes
) extends OrderedByteStore {

  private val buffer = new RocksDBWriteBuffer(columnFamily.getID, batchBytes)

  override def put(key: Array[Byte]): Unit = {
    buffer.put(key)
    if (buffer.isFull) flush()
  }

  override def delete(key: Array[Byte]): Unit = {
    buffer.delete(key)
    if (buffer.isFull) flush()
  }

  override def deleteRange(from: Array[Byte], until: Array[Byte]): Unit = {
    buffer.deleteRange(from, until)
    if (buffer.isFull) flush()
  }

  override def flush(): Unit = if (!buffer.isEmpty) {
    val batch = new WriteBatch(buffer.toByteArray)
    try db.write(writeOptions, batch)
    catch { case e: RocksDBException => throw failed("write a batch to", e) }
    finally batch.close()
    buffer.clear()
  }

  override def scan(from: Array[Byte], until: Array[Byte]): OrderedByteCursor = {
    flush()
    val upperBound = new Slice(until)
    // A prefix extractor of the column family must not hide keys: the bounds are no prefixes.
    val options = new ReadOptions(readOptions).setIterateUpperBound(upperBound).setTotalOrderSeek(true)
    val iterator = db.newIterator(columnFamily, options)
    iterator.seek(from)
    new Cursor(iterator, options, upperBound)
  }

  private def failed(what: String, e: RocksDBException): OrderedByteStoreException = {
    val name = new String(columnFamily.getName, UTF_8)
    new OrderedByteStoreException(
      s"RocksDB failed to $what column family '$name' of ${db.getName}: ${e.getMessage}",
      e
    )
  }

  private final class Cursor(iterator: RocksIterator, options: ReadOptions, upperBound: Slice)
      extends OrderedByteCursor {
    private var started = false
    private var closed = false

    override def advance(): Boolean = !closed && {
      if (started) { if (iterator.isValid) iterator.next() }
      else started = true
      iterator.isValid || {
        // An iterator that met an error looks like one at its end.
        try iterator.status()
        catch { case e: RocksDBException => throw failed("read", e) }
        false
      }
    }

    override def key: Array[Byte] = iterator.key()

    override def close(): Unit = if (!closed) {
      closed = true
      iterator.close()
      options.close()
      upperBound.close()
    }
  }
}

object RocksDBOrderedByteStore {
  val DefaultBatchBytes: Int = 32 * 1024
}
