package io.pillarbox.state.rocksdb.store

import io.pillarbox.api.OutputView
import io.pillarbox.state.rocksdb.cache.ChangeCursor

/**
 * Builds a RocksDB write batch on the heap, so that thousands of entries cross JNI in one call. A large batch
 * is written by itself, the rest with [[write]]. Not thread-safe.
 *
 * The format is that of write_batch.cc, which is also that of the write-ahead log and so stable: sequence (8
 * bytes), count (4 bytes, little-endian), then records of a tag, the column family's number and
 * length-prefixed key and value.
 */
private[rocksdb] final class BatchBuilder(store: RocksDBStore) {
  import BatchBuilder._
  private val out = new OutputView(16 << 10)
  private var count = 0
  begin()

  def put(
      family: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyLength: Int,
      value: Array[Byte],
      valueOffset: Int,
      valueLength: Int
  ): Unit = {
    start(Put, family, key, keyOffset, keyLength)
    end(value, valueOffset, valueLength)
  }

  def delete(family: Int, key: Array[Byte], keyOffset: Int, keyLength: Int): Unit = {
    start(Delete, family, key, keyOffset, keyLength)
    writeIfLarge()
  }

  /** Removes earlier entries with keys from `from` (included) to `until` (excluded). */
  def deleteRange(family: Int, from: Array[Byte], until: Array[Byte]): Unit = {
    start(DeleteRange, family, from, 0, from.length)
    end(until, 0, until.length)
  }

  /** Applies a change; the end of a value is added to the value that is there, see [[RocksDBStore]]. */
  def add(family: Int, change: ChangeCursor): Unit =
    if (change.valueLength < 0) delete(family, change.bytes, change.keyOffset, change.keyLength)
    else {
      val tag = if (change.isPartial) Merge else Put
      start(tag, family, change.bytes, change.keyOffset, change.keyLength)
      end(change.bytes, change.valueOffset, change.valueLength)
    }

  /** Writes the gathered entries. */
  def write(): Unit = if (count > 0) {
    val header = out.array
    for (i <- 0 until 4) header(8 + i) = (count >>> (8 * i)).toByte
    store.write(out.toByteArray)
    begin()
  }

  private def start(tag: Int, family: Int, key: Array[Byte], keyOffset: Int, keyLength: Int): Unit = {
    out.writeByte(tag)
    out.writeVarInt(family)
    out.writeVarInt(keyLength)
    out.writeBytes(key, keyOffset, keyLength)
    count += 1
  }

  private def end(value: Array[Byte], offset: Int, length: Int): Unit = {
    out.writeVarInt(length)
    out.writeBytes(value, offset, length)
    writeIfLarge()
  }

  private def writeIfLarge(): Unit = if (out.length > MaxBytes) write()

  private def begin(): Unit = {
    out.clear()
    out.shrinkTo(2 * MaxBytes)
    out.writeLong(0L)
    out.writeInt(0)
    count = 0
  }
}

private object BatchBuilder {
  final val Delete = 4
  final val Put = 5
  final val Merge = 6
  final val DeleteRange = 14
  final val MaxBytes: Int = 1 << 20
}
