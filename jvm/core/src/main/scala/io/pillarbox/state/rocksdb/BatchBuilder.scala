package io.pillarbox.state.rocksdb

import io.pillarbox.state.serialization.OutputView

/**
 * Builds a RocksDB write batch on the heap, so that thousands of entries cross JNI in one call.
 *
 * The format is that of write_batch.cc, which is also that of the write-ahead log and so stable: sequence (8 bytes), count (4
 * bytes, little-endian), then records of a tag, the column family's number and length-prefixed key and value.
 */
private[rocksdb] final class BatchBuilder(store: RocksDBStore) {
  private[this] val out = new OutputView(64 << 10)
  private[this] var count = 0
  begin()

  def put(
      family: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyLength: Int,
      value: Array[Byte],
      valueOffset: Int,
      valueLength: Int
  ): Unit =
    write(BatchBuilder.Put, family, key, keyOffset, keyLength, value, valueOffset, valueLength)

  /** Adds to the end of what is there, see [[RocksDBStore]]. */
  def append(
      family: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyLength: Int,
      value: Array[Byte],
      valueOffset: Int,
      valueLength: Int
  ): Unit =
    write(BatchBuilder.Merge, family, key, keyOffset, keyLength, value, valueOffset, valueLength)

  def delete(family: Int, key: Array[Byte], keyOffset: Int, keyLength: Int): Unit = {
    start(BatchBuilder.Delete, family, key, keyOffset, keyLength)
    writeIfLarge()
  }

  /** Writes what was gathered. */
  def write(): Unit = if (count > 0) {
    val header = out.array
    for (i <- 0 until 4) header(8 + i) = (count >>> (8 * i)).toByte
    store.write(out.toByteArray)
    begin()
  }

  private[this] def write(
      tag: Int,
      family: Int,
      key: Array[Byte],
      keyOffset: Int,
      keyLength: Int,
      value: Array[Byte],
      valueOffset: Int,
      valueLength: Int
  ): Unit = {
    start(tag, family, key, keyOffset, keyLength)
    out.writeVarInt(valueLength)
    out.writeBytes(value, valueOffset, valueLength)
    writeIfLarge()
  }

  private[this] def start(tag: Int, family: Int, key: Array[Byte], keyOffset: Int, keyLength: Int): Unit = {
    out.writeByte(tag)
    out.writeVarInt(family)
    out.writeVarInt(keyLength)
    out.writeBytes(key, keyOffset, keyLength)
    count += 1
  }

  private[this] def writeIfLarge(): Unit = if (out.length > BatchBuilder.MaxBytes) write()

  private[this] def begin(): Unit = {
    out.clear()
    out.shrinkTo(2 * BatchBuilder.MaxBytes)
    out.writeLong(0L)
    out.writeInt(0)
    count = 0
  }
}

private object BatchBuilder {
  final val Delete = 4
  final val Put = 5
  final val Merge = 6
  final val MaxBytes: Int = 1 << 20
}
