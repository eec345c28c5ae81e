package io.pillarbox.state.rocksdb

import java.nio.charset.StandardCharsets.UTF_8
import java.util

import scala.collection.mutable

import io.pillarbox.state.rocksdb.WriteBackCache.{Absent, Changed, Unwritten}
import io.pillarbox.state.serialization.{Bytes, InputView, OutputView}
import org.rocksdb.{ColumnFamilyHandle, RocksDB}

/**
 * Entries of all states as bytes: the write-back cache over the database, and the set of entries changed since the last
 * commit. Not thread-safe.
 *
 * When the cache is full its writes go to the database in one batch, and the keys of changed entries to a column family of
 * their own; so the memory for a commit is bounded however much changed.
 */
private[rocksdb] final class EntryStore(store: RocksDBStore, cacheBytes: Int, sharedCache: CacheBudget) {
  private[this] val columns = mutable.ArrayBuffer.empty[StateColumn]
  private[this] val cache = new WriteBackCache(cacheBytes, sharedCache)
  private[this] var unwritten = new Array[Int](1024)
  private[this] var unwrittenCount = 0
  private[this] val batch = new BatchBuilder(store)
  private[this] var changedFamily: ColumnFamilyHandle = _
  private[this] var scratch = new Array[Byte](4096)
  private[this] val changedKey = new OutputView(128)

  /** The value that [[get]] found; valid until the next call. */
  val value = new InputView

  @volatile var hits = 0L
  @volatile var misses = 0L

  /**
   * How many entries there are, as of the last commit or spill. Exact but for entries that compaction drops, and one in a
   * hundred of those written without being read first, which look to a Bloom filter as if they had been there.
   */
  @volatile var live = 0L

  /** What the cache takes on the heap, in bytes, as of the last commit or spill. */
  @volatile var cacheUsed = 0L
  private[this] var ownLive = 0L
  private[this] var ownHits = 0L
  private[this] var ownMisses = 0L

  def newColumn(): StateColumn = {
    val column = new StateColumn(columns.size)
    columns += column
    column
  }

  /** Finds the value of a key and opens [[value]] on it. */
  def get(column: StateColumn, key: OutputView): Boolean = {
    val entry = cache.find(column.id, key.array, key.length)
    if (entry >= 0) {
      ownHits += 1
      val length = cache.valueLength(entry)
      if (length != Absent) value.wrap(cache.bytes, cache.valueOffset(entry), length)
      length != Absent
    } else fetch(column, key)
  }

  /** @param isNew whether it is known that there is no such key */
  def put(column: StateColumn, key: OutputView, bytes: OutputView, isNew: Boolean = false): Unit = {
    val entry = entryForWrite(column, key)
    if (isNew || isAbsent(column, key, entry)) ownLive += 1
    cache.setValue(entry, bytes.array, bytes.length)
    noteWrite(column, entry)
  }

  /** Removes a key; nothing is noted if it is known to be absent. */
  def delete(column: StateColumn, key: OutputView): Unit = {
    val entry = entryForWrite(column, key)
    if (cache.valueLength(entry) != Absent || !cache.isKnown(entry)) {
      if (!isAbsent(column, key, entry)) ownLive -= 1
      cache.setAbsent(entry)
      noteWrite(column, entry)
    }
  }

  /** Replaces the first eight bytes of the value that [[get]] has just found. */
  def restamp(column: StateColumn, key: OutputView, timestamp: Long): Unit = {
    var entry = cache.find(column.id, key.array, key.length)
    if (entry < 0) {
      val length = read(column, key)
      entry = entryForWrite(column, key)
      cache.setValue(entry, scratch, length)
    }
    Bytes.putLong(cache.bytes, cache.valueOffset(entry), timestamp)
    noteWrite(column, entry)
  }

  /** The entries whose keys begin with `prefix`, in order, a page at a time. */
  def scan(column: StateColumn, prefix: Array[Byte], pageSize: Int = EntryStore.PageSize): EntryScan =
    new EntryScan(this, store, column, prefix, pageSize)

  /** Gives the database all writes that it doesn't have yet. */
  def writeThrough(): Unit = if (unwrittenCount > 0) {
    var i = 0
    while (i < unwrittenCount) {
      writeOne(unwritten(i))
      i += 1
    }
    batch.write()
    i = 0
    while (i < unwrittenCount) {
      cache.unmark(unwritten(i), Unwritten)
      i += 1
    }
    unwrittenCount = 0
  }

  /** Hands every entry of the column that changed since the last [[commitChanges]] to `action`, once. */
  def forEachChange(column: StateColumn)(action: ChangedEntry): Unit =
    if (changedFamily == null) {
      var i = 0
      while (i < column.changedCount) {
        val entry = column.changedEntry(i)
        val length = cache.valueLength(entry)
        action(
          cache.bytes,
          cache.keyOffset(entry),
          cache.keyLength(entry),
          if (length == Absent) null else cache.bytes,
          cache.valueOffset(entry),
          length
        )
        i += 1
      }
    } else forEachSpilled(column, action)

  /** From now on there are so many entries. */
  def assumeLive(count: Long): Unit = {
    ownLive = math.max(count, 0L)
    live = ownLive
  }

  /** Nothing counts as changed any more. */
  def commitChanges(): Unit = {
    columns.foreach { column =>
      var i = 0
      while (i < column.changedCount) {
        cache.unmark(column.changedEntry(i), Changed)
        i += 1
      }
      column.forgetChanged()
    }
    if (changedFamily != null) {
      store.dropColumnFamily(changedFamily)
      changedFamily = null
    }
    publishCounters()
  }

  /** Gives the cache's memory back; nothing may be read or written afterwards. */
  def close(): Unit = cache.close()

  private[this] def fetch(column: StateColumn, key: OutputView): Boolean = {
    ownMisses += 1
    if (cache.isFull) spill()
    val length = read(column, key)
    if (length <= EntryStore.MaxCachedValue) {
      val entry = cache.add(column.id, key.array, key.length)
      if (length != RocksDB.NOT_FOUND) cache.setValue(entry, scratch, length)
      cache.mark(entry, WriteBackCache.Known)
    }
    if (length != RocksDB.NOT_FOUND) value.wrap(scratch, 0, length)
    length != RocksDB.NOT_FOUND
  }

  /** Reads a value from the database into the scratch array. */
  private[this] def read(column: StateColumn, key: OutputView): Int = {
    var length = store.get(column.family, key.array, key.length, scratch)
    if (length > scratch.length) {
      scratch = new Array[Byte](length)
      length = store.get(column.family, key.array, key.length, scratch)
    } else if (scratch.length > EntryStore.MaxIdleScratch && length <= EntryStore.MaxCachedValue)
      scratch = util.Arrays.copyOf(scratch, EntryStore.MaxCachedValue)
    length
  }

  private[this] def entryForWrite(column: StateColumn, key: OutputView): Int = {
    if (cache.isFull) spill()
    val entry = cache.find(column.id, key.array, key.length)
    if (entry >= 0) entry else cache.add(column.id, key.array, key.length)
  }

  private[this] def isAbsent(column: StateColumn, key: OutputView, entry: Int): Boolean =
    if (cache.isKnown(entry)) cache.valueLength(entry) == Absent
    else !store.mayHave(column.family, key.array, key.length)

  private[this] def noteWrite(column: StateColumn, entry: Int): Unit = {
    if (!cache.isUnwritten(entry)) {
      if (unwrittenCount == unwritten.length) unwritten = util.Arrays.copyOf(unwritten, unwrittenCount * 2)
      unwritten(unwrittenCount) = entry
      unwrittenCount += 1
    }
    if (!cache.isChanged(entry)) column.noteChanged(entry)
    cache.mark(entry, Unwritten | Changed | WriteBackCache.Known)
  }

  private[this] def writeOne(entry: Int): Unit = {
    val family = columns(cache.column(entry)).familyNumber
    val length = cache.valueLength(entry)
    if (length == Absent) batch.delete(family, cache.bytes, cache.keyOffset(entry), cache.keyLength(entry))
    else
      batch.put(
        family,
        cache.bytes,
        cache.keyOffset(entry),
        cache.keyLength(entry),
        cache.bytes,
        cache.valueOffset(entry),
        length
      )
  }

  /** Empties the cache. */
  private[this] def spill(): Unit = {
    writeThrough()
    columns.foreach { column =>
      var i = 0
      while (i < column.changedCount) {
        noteSpilled(column, column.changedEntry(i))
        i += 1
      }
      column.forgetChanged()
    }
    batch.write()
    cache.clear()
    publishCounters()
  }

  private[this] def noteSpilled(column: StateColumn, entry: Int): Unit = {
    if (changedFamily == null) changedFamily = store.createColumnFamily(EntryStore.ChangedName)
    changedKey.clear()
    changedKey.writeShort(column.id)
    changedKey.writeBytes(cache.bytes, cache.keyOffset(entry), cache.keyLength(entry))
    batch.put(changedFamily.getID, changedKey.array, 0, changedKey.length, Array.emptyByteArray, 0, 0)
  }

  private[this] def forEachSpilled(column: StateColumn, action: ChangedEntry): Unit = {
    spill()
    val prefix = Array((column.id >>> 8).toByte, column.id.toByte)
    val until = EntryStore.successor(prefix)
    var from = prefix
    var more = true
    while (more) {
      val page = store.scan(changedFamily, from, until, 4096)
      for (i <- 0 until page.size) {
        changedKey.clear()
        changedKey.writeBytes(page.key(i), 2, page.key(i).length - 2)
        val length = read(column, changedKey)
        action(
          page.key(i),
          2,
          changedKey.length,
          if (length == RocksDB.NOT_FOUND) null else scratch,
          0,
          length
        )
      }
      more = !page.isLast
      if (more) from = EntryStore.after(page.key(page.size - 1))
    }
  }

  /** Lets other threads see how it stands. */
  def publishCounters(): Unit = {
    live = ownLive
    cacheUsed = cache.used
    hits = ownHits
    misses = ownMisses
  }
}

/** Sees one changed entry; `value` is null if it was removed. The arrays are only valid during the call. */
private[rocksdb] trait ChangedEntry {
  def apply(
      key: Array[Byte],
      keyOffset: Int,
      keyLength: Int,
      value: Array[Byte],
      valueOffset: Int,
      valueLength: Int
  ): Unit
}

private[rocksdb] object EntryStore {
  final val PageSize = 128
  val ChangedName: Array[Byte] = "changed".getBytes(UTF_8)

  /** Larger values are not kept in the cache once they are read. */
  private final val MaxCachedValue = 64 << 10
  private final val MaxIdleScratch = 1 << 20

  /** The least key that comes behind all that begin with `prefix`; null if there is none. */
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

/** Walks over entries in the order of their keys. Holds no native object between two calls, so it needn't be closed. */
private[rocksdb] final class EntryScan(
    entries: EntryStore,
    store: RocksDBStore,
    column: StateColumn,
    prefix: Array[Byte],
    pageSize: Int
) {
  private[this] val until = EntryStore.successor(prefix)
  private[this] var page: ScanPage = _
  private[this] var at = -1

  /** Moves to the next entry; false at the end. */
  def next(): Boolean = {
    at += 1
    while (page == null || (at >= page.size && !page.isLast)) load()
    at < page.size
  }

  def key: Array[Byte] = page.key(at)

  def value: Array[Byte] = page.value(at)

  private[this] def load(): Unit = {
    entries.writeThrough()
    val from = if (page == null) prefix else EntryStore.after(page.key(page.size - 1))
    page = store.scan(column.family, from, until, pageSize)
    at = 0
  }
}
