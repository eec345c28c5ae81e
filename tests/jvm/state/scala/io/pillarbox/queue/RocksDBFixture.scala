package io.pillarbox.queue

import java.nio.file.Path

import io.pillarbox.state.rocksdb.store.{RocksDBConfig, RocksDBStore}
import io.pillarbox.testing.TestDisk
import org.rocksdb.ColumnFamilyHandle

/** A database in a temporary folder that can be closed and opened again. */
final class RocksDBFixture extends AutoCloseable {
  val folder: Path = TestDisk.newDirectory("pillarbox-queue")
  private var open = newDatabase()
  private var families = 0

  private def newDatabase() = new RocksDBStore(RocksDBConfig(folder, memoryLimit = 32L << 20))

  def newStore(limitBytes: Int = 256): RocksDBOrderedByteStore =
    new RocksDBOrderedByteStore(open, timers, limitBytes)

  /** Over a new column family. */
  def newStoreOfItsOwn(limitBytes: Int = 256): RocksDBOrderedByteStore = {
    families += 1
    new RocksDBOrderedByteStore(open, open.columnFamily(s"own-$families"), limitBytes)
  }

  def db: RocksDBStore = open

  def timers: ColumnFamilyHandle = open.columnFamily("timers")

  /** Closes and opens again; what was not flushed is gone. */
  def restart(): Unit = {
    // Without a write-ahead log, the memtables must reach the files.
    open.flush()
    open.close()
    open = newDatabase()
  }

  override def close(): Unit = {
    open.close()
    TestDisk.delete(folder)
  }
}
