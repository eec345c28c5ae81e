package io.pillarbox.state.rocksdb.entries

import java.util

import scala.collection.mutable

import io.pillarbox.api.{Bytes, InputView, OutputView}
import io.pillarbox.state.rocksdb.cache.WriteBackCache
import io.pillarbox.state.rocksdb.cache.WriteBackCache.{Absent, Known, Partial}
import io.pillarbox.state.rocksdb.entries.EntryStore._
import io.pillarbox.state.rocksdb.store.{RocksDBConfig, RocksDBStore}
import org.rocksdb.RocksDB

/**
 * Entries of all states as bytes: the write-back cache over the database, and the set of entries changed
 * since the last commit. Not thread-safe.
 *
 * The cache is emptied as a whole when it is full ([[DirtyEntries.spill]]); so the memory for a commit is
 * bounded however much changed.
 */
private[rocksdb] final class EntryStore(store: RocksDBStore, config: RocksDBConfig) {
  private val columns = mutable.ArrayBuffer.empty[StateColumn]
  private val cache = new WriteBackCache(config.cacheBytes, config.sharedCache)

  /** The entries that the database or the next commit lacks. */
  val dirty = new DirtyEntries(cache, columns, store, "changes.spill")
  private val census = new WriteCensus

  /** Picks the appends that look at the value before, so that no chunk grows without end. */
  private val sample = new Sample(6)
  private var scratch = new Array[Byte](4096)

  /** The size in bytes from which on a list's chunk takes no further element. */
  val listChunkBytes: Int = math.min(config.listChunkBytes, MaxCachedValue / 2)

  /** The most bytes that are added to the end of a list without a look at it. */
  private val unseenBytes = listChunkBytes / 8

  /** The value that [[get]] found; valid until the next call. */
  val value = new InputView

  /**
   * The number of entries, as of the last commit or spill. Exact but for entries that compaction drops, and
   * for those written without being read first while the database may have them, which [[WriteCensus]]
   * estimates.
   */
  @volatile var live = 0L

  /** The cache's bytes on the heap, as of the last commit or spill. */
  @volatile var cacheUsed = 0L

  /** The number of writes, and of spills, which take entries newer than a scan's page from the cache. */
  var writes = 0L
  var spills = 0L
  private var ownLive = 0L

  /** The number of entries now. */
  def total: Long = ownLive

  /** The cache's entry that [[get]] found. */
  private var found = -1

  /** @param isPacked true if each entry holds several of the state's, so that commits write them by a log */
  def newColumn(isPacked: Boolean): StateColumn = {
    val id = columns.size
    val log = if (isPacked) new StateColumn(id + 1, id, null, cache) else null
    columns += new StateColumn(id, id, log, cache)
    if (isPacked) columns += log
    columns(id)
  }

  /** Finds the value of a key and opens [[value]] on it. */
  def get(column: StateColumn, key: OutputView): Boolean = {
    val entry = find(column, key)
    if (entry >= 0) show(column, key, entry) else fetch(column, key)
  }

  /**
   * Finds the value of a key to which `more` bytes are to be added. If it isn't in the cache it mostly is
   * [[Unseen]], since the database is asked for a sample only, and for large additions; else it is
   * [[Missing]], or [[Present]] and [[value]] is opened on it.
   */
  def look(column: StateColumn, key: OutputView, more: Int): Int = {
    val entry = find(column, key)
    found = entry
    val isUnseen =
      if (entry < 0) column.isStored && more <= unseenBytes && !sample.isNext()
      else
        cache.isPartial(entry) && cache.isUnwritten(entry) && cache.valueLength(entry) + more <= unseenBytes
    if (isUnseen) Unseen
    else if (if (entry < 0) fetch(column, key) else show(column, key, entry)) Present
    else Missing
  }

  /** Adds to the end of the value that [[look]] has just not seen. */
  def appendUnseen(column: StateColumn, key: OutputView, bytes: OutputView): Unit = {
    var entry = found
    if (entry >= 0) cache.append(entry, bytes.array, bytes.length)
    else {
      if (cache.isFull) spill()
      entry = add(column, key)
      cache.setValue(entry, bytes.array, bytes.length)
    }
    noteWrite(column, entry)
    cache.unmark(entry, Known)
    cache.mark(entry, Partial)
  }

  def put(column: StateColumn, key: OutputView, bytes: OutputView): Unit = {
    val entry = entryForWrite(column, key)
    if (column.isKept && !column.isPacked) ownLive += countIf(absent = true, column, key, entry)
    cache.setValue(entry, bytes.array, bytes.length)
    noteWrite(column, entry)
  }

  /** Removes a key; without effect if it is known to be absent. */
  def delete(column: StateColumn, key: OutputView): Unit = {
    val entry = entryForWrite(column, key)
    if (cache.valueLength(entry) != Absent || !cache.isKnown(entry)) {
      if (!column.isPacked) ownLive -= countIf(absent = false, column, key, entry)
      cache.setAbsent(entry)
      noteWrite(column, entry)
    }
  }

  /** Removes a key that is there. */
  def deleteFound(column: StateColumn, key: OutputView): Unit = {
    val entry = entryForWrite(column, key)
    ownLive -= 1
    cache.setAbsent(entry)
    noteWrite(column, entry)
  }

  /** Adds to the end of the value that [[get]] has just found, if that is of [[listChunkBytes]] or less. */
  def append(column: StateColumn, bytes: OutputView): Unit = {
    cache.append(found, bytes.array, bytes.length)
    noteWrite(column, found)
  }

  /** Adds a put of a packed column to the next commit. */
  def logPut(column: StateColumn, key: OutputView, bytes: OutputView): Unit = put(column.log, key, bytes)

  /** Adds a removal of a packed column to the next commit. */
  def logRemoved(column: StateColumn, key: OutputView): Unit = {
    val entry = entryForWrite(column.log, key)
    cache.setAbsent(entry)
    noteWrite(column.log, entry)
  }

  /** Adds to the number of entries in packed columns. */
  def countLive(more: Int): Unit = ownLive += more

  /** Replaces the first eight bytes of the value that [[get]] has just found. */
  def setTimestamp(column: StateColumn, key: OutputView, timestamp: Long): Unit = {
    var entry = find(column, key)
    if (entry < 0) {
      val length = read(column, key)
      entry = entryForWrite(column, key)
      cache.setValue(entry, scratch, length)
    }
    Bytes.putLong(cache.bytes, cache.valueOffset(entry), timestamp)
    noteWrite(column, entry)
  }

  /** The cache's entry of this key, if it has the whole value or knows that there is none; else -1. */
  def cached(column: StateColumn, key: Array[Byte]): Int = {
    val entry = cache.find(column.id, key, key.length)
    if (entry >= 0 && cache.isKnown(entry) && !cache.isPartial(entry)) entry else -1
  }

  /** Copies the value of an entry of the cache; null if it has none. */
  def valueOf(cached: Int): Array[Byte] = {
    val (from, length) = (cache.valueOffset(cached), cache.valueLength(cached))
    if (length == Absent) null else util.Arrays.copyOfRange(cache.bytes, from, from + length)
  }

  /** Walks over the entries whose keys begin with `prefix`, in order from `from` on, a page at a time. */
  def scan(
      column: StateColumn,
      prefix: Array[Byte],
      pageSize: Int = PageSize,
      from: Array[Byte] = null
  ): EntryScan = new EntryScan(this, store, column, prefix, if (from == null) prefix else from, pageSize)

  /** Sets the number of entries. */
  def assumeLive(count: Long): Unit = {
    ownLive = math.max(count, 0L)
    live = ownLive
  }

  /** Gives the cache's memory back; nothing may be read or written afterwards. */
  def close(): Unit = {
    cache.close()
    dirty.close()
  }

  private def show(column: StateColumn, key: OutputView, entry: Int): Boolean = {
    if (cache.isPartial(entry)) complete(column, key, entry)
    found = entry
    val length = cache.valueLength(entry)
    if (length != Absent) value.wrap(cache.bytes, cache.valueOffset(entry), length)
    length != Absent
  }

  /** Reads the beginning of a value of which the entry has only the end. */
  private def complete(column: StateColumn, key: OutputView, entry: Int): Unit = {
    val length = read(column, key)
    if (length != RocksDB.NOT_FOUND) {
      if (cache.isUnwritten(entry)) cache.prepend(entry, scratch, length)
      else cache.setValue(entry, scratch, length)
    }
    cache.unmark(entry, Partial)
    cache.mark(entry, Known)
  }

  /** Finds the entry of this key, or -1. */
  private def find(column: StateColumn, key: OutputView): Int =
    if (cache.isAt(column.recent, column.id, key.array, key.length)) column.recent
    else {
      val entry = cache.find(column.id, key.array, key.length)
      if (entry >= 0) column.recent = entry
      entry
    }

  /** Adds a key that is not there. */
  private def add(column: StateColumn, key: OutputView): Int = {
    column.recent = cache.add(column.id, key.array, key.length)
    column.recent
  }

  private def fetch(column: StateColumn, key: OutputView): Boolean = {
    if (cache.isFull) spill()
    val length = if (column.isStored) read(column, key) else RocksDB.NOT_FOUND
    if (length <= MaxCachedValue) {
      val entry = add(column, key)
      if (length != RocksDB.NOT_FOUND) cache.setValue(entry, scratch, length)
      cache.mark(entry, Known)
      found = entry
    }
    if (length != RocksDB.NOT_FOUND) value.wrap(scratch, 0, length)
    length != RocksDB.NOT_FOUND
  }

  /** Reads a value from the database into the scratch array. */
  private def read(column: StateColumn, key: OutputView): Int = {
    var length = store.get(column.family, key.array, key.length, scratch)
    if (length > scratch.length) {
      scratch = new Array[Byte](length)
      length = store.get(column.family, key.array, key.length, scratch)
    } else if (scratch.length > MaxIdleScratch && length <= MaxCachedValue)
      scratch = util.Arrays.copyOf(scratch, MaxCachedValue)
    length
  }

  private def entryForWrite(column: StateColumn, key: OutputView): Int = {
    if (cache.isFull) spill()
    val present = find(column, key)
    if (present >= 0) present
    else {
      val added = add(column, key)
      if (!column.isStored) cache.mark(added, Known)
      added
    }
  }

  /** The number of entries that this one stands for if it is absent, or present, as asked; 0 if it is not. */
  private def countIf(absent: Boolean, column: StateColumn, key: OutputView, entry: Int): Int =
    if (cache.isKnown(entry)) { if ((cache.valueLength(entry) == Absent) == absent) 1 else 0 }
    else {
      val weight = census.weight()
      if (weight > 0 && store.mayHave(column.family, key.array, key.length) != absent) weight else 0
    }

  private def noteWrite(column: StateColumn, entry: Int): Unit = {
    writes += 1
    dirty.add(column, entry)
    cache.unmark(entry, Partial)
    cache.mark(entry, Known)
  }

  private def spill(): Unit = {
    spills += 1
    dirty.spill()
    cache.clear()
    publishCounters()
  }

  /** Publishes the counters to other threads. */
  def publishCounters(): Unit = {
    live = ownLive
    cacheUsed = cache.used
  }
}

private[rocksdb] object EntryStore {
  final val Missing = 0
  final val Present = 1
  final val Unseen = 2
  final val PageSize = 128

  /** Larger values are not kept in the cache once they are read. */
  private final val MaxCachedValue = 64 << 10
  private final val MaxIdleScratch = 1 << 20

  /** The least key behind all that begin with `prefix`; null if there is none. */
  def successor(prefix: Array[Byte]): Array[Byte] = {
    val last = prefix.lastIndexWhere(_ != -1)
    if (last < 0) null
    else {
      val next = util.Arrays.copyOf(prefix, last + 1)
      next(last) = (next(last) + 1).toByte
      next
    }
  }

  /** The least key behind this one. */
  def after(key: Array[Byte]): Array[Byte] = util.Arrays.copyOf(key, key.length + 1)
}
