package io.pillarbox.queue

import java.nio.file.Path

import scala.jdk.CollectionConverters._

import io.pillarbox.testing.TestDisk
import org.rocksdb._

/** A RocksDB in a temporary folder that can be closed and opened again. */
final class RocksDBFixture extends AutoCloseable {
  RocksDB.loadLibrary()
  val folder: Path = TestDisk.newDirectory("pillarbox-queue")
  private var open = new OpenDatabase(folder)

  def newStore(batchBytes: Int = 256): RocksDBOrderedByteStore = new RocksDBOrderedByteStore(
    open.db,
    open.timers,
    open.readOptions,
    open.writeOptions,
    batchBytes
  )

  /** Over a new column family, which goes away with [[close]]; [[restart]] doesn't know of it. */
  def newStoreOfItsOwn(batchBytes: Int = 256, keyGroupWidth: Int = 1): RocksDBOrderedByteStore =
    new RocksDBOrderedByteStore(
      open.db,
      open.addFamily(),
      open.readOptions,
      open.writeOptions,
      batchBytes,
      keyGroupWidth
    )

  def db: RocksDB = open.db

  def timers: ColumnFamilyHandle = open.timers

  /** Closes and opens again; what was only in a write batch is gone. */
  def restart(): Unit = {
    open.flush()
    open.close()
    open = new OpenDatabase(folder)
  }

  override def close(): Unit = {
    open.close()
    TestDisk.delete(folder)
  }
}

private final class OpenDatabase(folder: Path) extends AutoCloseable {
  private val options = new DBOptions().setCreateIfMissing(true).setCreateMissingColumnFamilies(true)
  private val familyOptions = new ColumnFamilyOptions()
  private val handles = new java.util.ArrayList[ColumnFamilyHandle]
  val readOptions = new ReadOptions()
  val writeOptions: WriteOptions = new WriteOptions().setDisableWAL(true)
  private val families = Seq(RocksDB.DEFAULT_COLUMN_FAMILY, "timers".getBytes)
    .map(name => new ColumnFamilyDescriptor(name, familyOptions))
  val db: RocksDB = RocksDB.open(options, folder.toString, families.asJava, handles)
  val timers: ColumnFamilyHandle = handles.get(1)

  def addFamily(): ColumnFamilyHandle = {
    val name = s"own-${handles.size}".getBytes
    handles.add(db.createColumnFamily(new ColumnFamilyDescriptor(name, familyOptions)))
    handles.get(handles.size - 1)
  }

  /** Without a write-ahead log, the memtables must reach the files. */
  def flush(): Unit = {
    val options = new FlushOptions()
    try db.flush(options, handles)
    finally options.close()
  }

  override def close(): Unit = {
    handles.forEach(_.close())
    Seq[AutoCloseable](db, readOptions, writeOptions, familyOptions, options).foreach(_.close())
  }
}
