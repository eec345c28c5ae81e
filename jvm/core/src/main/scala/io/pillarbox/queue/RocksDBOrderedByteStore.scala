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
 * Writes wait on the heap, those of each key group by themselves, and reach the database in one batch, in order: all of them
 * when `batchBytes` are full and at `flush`, those of the key groups that a scan is about before it. Scans have
 * an upper bound, so they never walk through what other key groups deleted. Database, column family and options stay the
 * caller's, who closes them after the last use of this.
 *
 * @param batchBytes
 *   how much may wait, about
 * @param keyGroupWidth
 *   how many bytes (1 or 2) of a key name its group, see [[OrderPreserving.keyGroupWidth]]; counts for speed only
 */
final class RocksDBOrderedByteStore(
    db: RocksDB,
    columnFamily: ColumnFamilyHandle,
    readOptions: ReadOptions,
    writeOptions: WriteOptions,
    batchBytes: Int = RocksDBOrderedByteStore.DefaultBatchBytes,
    keyGroupWidth: Int = 1
) extends OrderedByteStore {
  private val buffer = new RocksDBWriteBuffer(columnFamily.getID, math.min(batchBytes, 64 << 10))
  private val waiting = new Array[WaitingWrites](1 << (8 * keyGroupWidth))
  private val order = new WriteOrder
  private var waitingBytes = 0

  override def put(key: Array[Byte]): Unit = {
    waitingBytes += waitingFor(key).put(key)
    if (waitingBytes >= batchBytes) flush()
  }

  override def delete(key: Array[Byte]): Unit = {
    waitingBytes += waitingFor(key).delete(key)
    if (waitingBytes >= batchBytes) flush()
  }

  override def deleteRange(from: Array[Byte], until: Array[Byte]): Unit =
    if (groupOf(from) == lastGroupBefore(until)) {
      waitingBytes += waitingFor(from).deleteRange(from, until)
      if (waitingBytes >= batchBytes) flush()
    } else {
      flush()
      buffer.deleteRange(from, until)
      write()
    }

  override def flush(): Unit = flush(0, waiting.length - 1)

  private def flush(from: Int, to: Int): Unit = {
    var group = from
    while (group <= to) {
      if (waiting(group) != null && !waiting(group).isEmpty) {
        waitingBytes -= waiting(group).bytes
        waiting(group).moveTo(buffer, order)
      }
      group += 1
    }
    write()
  }

  private def write(): Unit = if (!buffer.isEmpty) {
    val batch = new WriteBatch(buffer.toByteArray)
    try db.write(writeOptions, batch)
    catch { case e: RocksDBException => throw failed("write a batch to", e) }
    finally batch.close()
    buffer.clear()
  }

  private def waitingFor(key: Array[Byte]): WaitingWrites = {
    val group = groupOf(key)
    if (waiting(group) == null) waiting(group) = new WaitingWrites(keyGroupWidth)
    waiting(group)
  }

  /** Shorter keys are filled up with zeros. */
  private def groupOf(key: Array[Byte]): Int = {
    val first = if (key.length > 0) key(0) & 0xff else 0
    if (keyGroupWidth == 1) first
    else (first << 8) | (if (key.length > 1) key(1) & 0xff else 0)
  }

  /** The last group with keys below `until`; what ends with a zero comes after a key that lacks it. */
  private def lastGroupBefore(until: Array[Byte]): Int = {
    val isStart = until.length <= keyGroupWidth && (until.length == 0 || until.last != 0)
    if (isStart) groupOf(until) - 1 else groupOf(until)
  }

  override def scan(from: Array[Byte], until: Array[Byte]): OrderedByteCursor = {
    flush(groupOf(from), lastGroupBefore(until))
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
  val DefaultBatchBytes: Int = 1 << 20
}
