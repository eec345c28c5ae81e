package io.pillarbox.state.rocksdb.store

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.util

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.pillarbox.state.StateBackendException
import org.rocksdb._

/**
 * One open database and its native objects: column families, reads, batches, checkpoints. Not thread-safe.
 *
 * The database is a TtlDB, so that a column family can have an age at which compaction drops entries. It has
 * no write-ahead log: snapshots and logs hold the data that must survive a crash.
 */
private[pillarbox] final class RocksDBStore(config: RocksDBConfig) extends AutoCloseable {
  private val memory = RocksDBMemory.acquire(config.memoryLimit)
  private val natives = mutable.ArrayBuffer.empty[AutoCloseable]

  /**
   * True if new tables have their indexes and filters in parts, so that a lookup keeps no more than its own
   * in a small cache. It takes a third longer than one in a whole index, which must stay in the cache.
   */
  val isPartitioned: Boolean =
    try tableBytes() > memory.share
    catch {
      case e: Throwable =>
        memory.close()
        throw e
    }
  private val tableConfig = new BlockBasedTableConfig()
    .setBlockCache(memory.cache)
    .setCacheIndexAndFilterBlocks(true)
    .setPinL0FilterAndIndexBlocksInCache(true)
    .setFilterPolicy(own(new BloomFilter(10, false)))
    .setIndexType(if (isPartitioned) IndexType.kTwoLevelIndexSearch else IndexType.kBinarySearch)
    .setPartitionFilters(isPartitioned)
    .setPinTopLevelIndexAndFilter(isPartitioned)
    .setDataBlockIndexType(DataBlockIndexType.kDataBlockBinaryAndHash)

  /** Joins values by appending, with nothing between them. */
  private val appendOperator = own(new StringAppendOperator(""))
  private val readOptions = own(new ReadOptions())
  private val writeOptions = own(new WriteOptions().setDisableWAL(true))
  private val families = mutable.LinkedHashMap.empty[ColumnFamilyHandle, ColumnFamilyOptions]

  /** Families whose entries have an age, once compaction may run in them. */
  private val expiring = mutable.Set.empty[ColumnFamilyHandle]
  private var expiryAllowed = true
  private var isOpen = false
  private val db: TtlDB = guarded("open") { open() }
  isOpen = true

  /** The column families, with the default one. */
  def columnFamilies: Seq[ColumnFamilyHandle] = families.keys.toSeq

  def directory: Path = config.directory

  /** The next batch; a caller that adds to it writes it in the end. */
  private[rocksdb] val batch = new BatchBuilder(this)

  /** What lies over this database, and ends before it. */
  private val above = mutable.ArrayBuffer.empty[AutoCloseable]

  /** Closes this, which may be closed already, before the database. */
  private[rocksdb] def closeFirst(part: AutoCloseable): Unit = above += part

  /** What is to go from this database, as it is another one's. */
  private[pillarbox] val hidden = new HiddenEntries(this)

  /** Returns a column family for structures beside the states: restored by this name, or a new one. */
  private[pillarbox] def columnFamily(name: String): ColumnFamilyHandle = {
    val bytes = name.getBytes(UTF_8)
    val restored = columnFamilies.find(_.getName.sameElements(bytes))
    restored.foreach(enableCompaction)
    restored.getOrElse(createColumnFamily(bytes))
  }

  /**
   * Adds a column family.
   *
   * @param ttlSeconds the age at which compaction may drop an entry, 0 for never
   * @param compacts true if compaction may start; see [[enableCompaction]]
   */
  def createColumnFamily(
      name: Array[Byte],
      ttlSeconds: Int = 0,
      compacts: Boolean = true
  ): ColumnFamilyHandle = {
    val isOn = compacts && (ttlSeconds == 0 || families.synchronized(expiryAllowed))
    val options = familyOptions(isOn)
    val handle = orFreed(Seq(options))(guarded("create a column family in") {
      db.createColumnFamilyWithTtl(new ColumnFamilyDescriptor(name, options), age(ttlSeconds))
    })
    families.synchronized {
      families(handle) = options
      if (compacts && ttlSeconds > 0) expiring += handle
      if (compacts && ttlSeconds > 0 && isOn != expiryAllowed) setCompaction(handle, expiryAllowed)
    }
    handle
  }

  /** Lets compaction run in a column family that was opened without. */
  def enableCompaction(family: ColumnFamilyHandle): Unit = families.synchronized {
    val expires = ColumnName.parse(family.getName).exists(_.ttlSeconds > 0)
    if (expires) expiring += family
    if (!expires || expiryAllowed) setCompaction(family, isOn = true)
  }

  /** Allows or forbids compactions that drop old entries. No-op once closed. Any thread. */
  def allowExpiry(allowed: Boolean): Unit = families.synchronized {
    if (isOpen && allowed != expiryAllowed) {
      expiryAllowed = allowed
      expiring.foreach(setCompaction(_, allowed))
    }
  }

  /** True if compaction begins by itself in a column family. */
  private[rocksdb] def compacts(family: ColumnFamilyHandle): Boolean =
    guarded("read options of")(!db.getOptions(family).disableAutoCompactions())

  private def setCompaction(family: ColumnFamilyHandle, isOn: Boolean): Unit =
    guarded("set options of") {
      db.setOptions(family, MutableColumnFamilyOptions.builder().setDisableAutoCompactions(!isOn).build())
    }

  /** Adds the lag of the state's clock behind the clock by which entries grow old. */
  private def age(ttlSeconds: Int): Int =
    if (ttlSeconds == 0) 0
    else math.min(ttlSeconds + (config.clockBehind + 999) / 1000, Int.MaxValue / 2L).toInt

  def dropColumnFamily(family: ColumnFamilyHandle): Unit = {
    families.synchronized(expiring -= family)
    guarded("drop a column family of")(db.dropColumnFamily(family))
    families.synchronized(families.remove(family)).foreach { options =>
      family.close()
      options.close()
    }
  }

  /** Reads into `value`; returns the whole length, perhaps more than fits, or [[RocksDB.NOT_FOUND]]. */
  def get(family: ColumnFamilyHandle, key: Array[Byte], keyLength: Int, value: Array[Byte]): Int =
    try db.get(family, readOptions, key, 0, keyLength, value, 0, value.length)
    catch { case e: RocksDBException => throw failed("read from", e) }

  /** False if the key is not there; asks memory and Bloom filters only. */
  def mayHave(family: ColumnFamilyHandle, key: Array[Byte], keyLength: Int): Boolean =
    db.keyMayExist(family, key, 0, keyLength, null)

  /** Applies a serialised batch as one write. */
  def write(batch: Array[Byte]): Unit = guarded("write to") {
    val native = new WriteBatch(batch)
    try db.write(writeOptions, native)
    finally native.close()
  }

  /** Adds the entries that `fill` puts, in the order of their keys, each of which must not be there yet. */
  private[rocksdb] def addSorted(family: ColumnFamilyHandle)(fill: SortedFile => Unit): Unit =
    guarded("add a file to") {
      val file = new SortedFile(db, family, config.directory.resolve("sorted.new"), tableConfig)
      try {
        fill(file)
        file.ingest()
      } finally file.close()
    }

  /** Reads up to `limit` entries with keys from `from` (included) to `until` (excluded), in order. */
  def scan(family: ColumnFamilyHandle, from: Array[Byte], until: Array[Byte], limit: Int): ScanPage = {
    val found = cursor(family, from, until)
    try {
      val page = new ScanPage(math.min(limit, 16))
      var more = found.advance()
      while (more && page.size < limit && page.bytes < RocksDBStore.PageBytes) {
        page.add(found.key, found.value)
        more = found.advance()
      }
      page.isLast = !more
      page
    } finally found.close()
  }

  /**
   * Walks over the entries with keys from `from` (included) to `until` (excluded; null for no bound) as they
   * are now, in order. It never walks through deletes outside of these bounds.
   */
  private[pillarbox] def cursor(
      family: ColumnFamilyHandle,
      from: Array[Byte],
      until: Array[Byte]
  ): StoreCursor = {
    val bound = if (until == null) null else new Slice(until)
    val options = new ReadOptions()
    if (bound != null) options.setIterateUpperBound(bound)
    val iterator = db.newIterator(family, options)
    iterator.seek(from)
    new StoreCursor(iterator, options, bound, () => guarded("scan")(iterator.status()))
  }

  /**
   * Writes all buffers to files.
   *
   * @param waits true to return when they are written; else they are written in the background
   */
  def flush(waits: Boolean = true): Unit = guarded("flush") {
    val options = new FlushOptions().setWaitForFlush(waits)
    try db.flush(options, families.keys.toList.asJava)
    finally options.close()
  }

  /** Compacts all of a column family, which drops old entries. */
  def compact(family: ColumnFamilyHandle): Unit = guarded("compact")(db.compactRange(family))

  /** Does so unless entries that have an age must not be dropped now. Any thread. */
  private[rocksdb] def compactIfAllowed(family: ColumnFamilyHandle): Unit = {
    val hasAge = ColumnName.parse(family.getName).exists(_.ttlSeconds > 0)
    val isAllowed = !hasAge || families.synchronized(expiring(family) && expiryAllowed)
    if (isAllowed) compact(family)
  }

  /** Ends compactions; to be followed by [[close]]. Any thread. */
  private[rocksdb] def cancelCompaction(): Unit = families.synchronized {
    if (isOpen) db.cancelAllBackgroundWork(false)
  }

  /** Copies the database, by hard links on the same file system, to a directory that must not exist yet. */
  def checkpoint(target: Path): Unit = guarded("checkpoint") {
    val checkpoint = Checkpoint.create(db)
    try checkpoint.createCheckpoint(target.toString)
    finally checkpoint.close()
  }

  /** True if the tables are so large that they should be partitioned, as by the next opening. Any thread. */
  def hasOutgrown: Boolean =
    !isPartitioned && property("rocksdb.total-sst-files-size") > RocksDBStore.Outgrown * memory.share

  /** The sum of a numeric property over the column families, 0 once closed. Any thread. */
  def property(name: String): Long = families.synchronized {
    if (isOpen) families.keys.iterator.map(db.getLongProperty(_, name)).sum else 0L
  }

  override def close(): Unit = {
    above.foreach(_.close())
    above.clear()
    hidden.close()
    families.synchronized {
      if (isOpen) {
        isOpen = false
        families.foreach { case (handle, _) => handle.close() }
        db.close()
        freeNatives()
      }
    }
  }

  private def freeNatives(): Unit = {
    families.values.foreach(_.close())
    natives.reverseIterator.foreach(_.close())
    memory.close()
  }

  private def own[A <: AutoCloseable](native: A): A = {
    natives += native
    native
  }

  private def open(): TtlDB =
    try {
      Files.createDirectories(config.directory)
      val names = listFamilies()
      // Nothing restored is compacted before its TTL is known; the default one holds no state.
      val options = names.map { name =>
        if (name.sameElements(RocksDB.DEFAULT_COLUMN_FAMILY)) emptyFamilyOptions() else familyOptions(false)
      }
      val handles = new util.ArrayList[ColumnFamilyHandle]
      val descriptors = names.zip(options).map { case (name, o) => new ColumnFamilyDescriptor(name, o) }
      val ttls =
        names.map(name => Integer.valueOf(ColumnName.parse(name).fold(0)(found => age(found.ttlSeconds))))
      val opened = orFreed(options) {
        TtlDB.open(databaseOptions(), path, descriptors.asJava, handles, ttls.asJava, false)
      }
      handles.asScala.zip(options).foreach { case (handle, o) => families(handle) = o }
      opened
    } catch {
      case e: Throwable =>
        freeNatives()
        throw e
    }

  /** They hold the block cache that databases share, also where nothing could be opened with them. */
  private def orFreed[A](options: Seq[ColumnFamilyOptions])(opened: => A): A =
    try opened
    catch {
      case e: Throwable =>
        options.foreach(_.close())
        throw e
    }

  private def path = config.directory.toString

  /** The size of the tables that are there before it is opened. */
  private def tableBytes(): Long =
    if (!Files.exists(config.directory)) 0L
    else {
      val files = Files.list(config.directory)
      try files.filter(_.toString.endsWith(".sst")).mapToLong(Files.size(_)).sum
      finally files.close()
    }

  /** Lists the column families, the default one first. */
  private def listFamilies(): Seq[Array[Byte]] = {
    val options = new Options()
    try
      if (!Files.exists(config.directory.resolve("CURRENT"))) Seq(RocksDB.DEFAULT_COLUMN_FAMILY)
      else RocksDB.listColumnFamilies(options, path).asScala.toSeq
    finally options.close()
  }

  private def databaseOptions(): DBOptions = {
    val options = own(new DBOptions())
      .setCreateIfMissing(true)
      .setWriteBufferManager(memory.writeBufferManager)
      .setInfoLogLevel(InfoLogLevel.WARN_LEVEL)
      .setMaxLogFileSize(1L << 20)
      .setKeepLogFileNum(2)
      .setStatsDumpPeriodSec(0)
      .setAvoidFlushDuringShutdown(true)
    if (config.diskLimit > 0) options.setSstFileManager(limitedFiles())
    options
  }

  private def limitedFiles(): SstFileManager = {
    val environment = Env.getDefault
    val manager = own(new SstFileManager(environment))
    manager.setMaxAllowedSpaceUsage(config.diskLimit)
    manager
  }

  /** A filter of a write buffer takes its memory before there is an entry, and pays with many of them. */
  private def familyOptions(compacts: Boolean): ColumnFamilyOptions = {
    val bytes = memory.writeBufferBytes
    new ColumnFamilyOptions()
      .setTableFormatConfig(tableConfig)
      .setDisableAutoCompactions(!compacts)
      .setMergeOperator(appendOperator)
      .setWriteBufferSize(bytes)
      .setMemtableWholeKeyFiltering(true)
      .setMemtablePrefixBloomSizeRatio(if (bytes >= RocksDBStore.FilteredBytes) 0.05 else 0.0)
  }

  /** For the family that every database has. */
  private def emptyFamilyOptions(): ColumnFamilyOptions =
    new ColumnFamilyOptions().setTableFormatConfig(tableConfig).setWriteBufferSize(64L << 10)

  private def guarded[A](what: String)(action: => A): A =
    try action
    catch { case e: RocksDBException => throw failed(what, e) }

  private def failed(what: String, cause: RocksDBException): StateBackendException = {
    val status = Option(cause.getStatus).map(_.getCode)
    val condition = status match {
      case Some(Status.Code.Corruption) => "STATE_FILE_CORRUPT"
      case _ => "STATE_STORE_FAILED"
    }
    new StateBackendException(
      condition,
      s"Could not $what the RocksDB database in ${config.directory}: ${cause.getMessage}. " +
        "Check that the directory is there, is not full and is sound; restore from a snapshot if it is " +
        "damaged",
      cause
    )
  }
}

private object RocksDBStore {

  /** A page of a scan ends after this many bytes. */
  final val PageBytes = 1 << 20

  /**
   * Whole indexes and filters of tables are up to a twelfth of these: of so many times a share of the memory,
   * they are a third of it.
   */
  final val Outgrown = 4L

  /** The least size of a write buffer with a filter. */
  final val FilteredBytes: Long = 8L << 20
}
