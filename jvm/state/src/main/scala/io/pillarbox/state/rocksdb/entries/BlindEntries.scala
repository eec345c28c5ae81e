package io.pillarbox.state.rocksdb.entries

import io.pillarbox.state.rocksdb.cache.{CacheBudget, ChangeCursor, WriteBackCache}
import io.pillarbox.state.rocksdb.store.RocksDBStore
import org.rocksdb.ColumnFamilyHandle

/**
 * Keys without values that are put and deleted but not read here, in a cache of their own, where they push
 * out nothing that is read. Not thread-safe. It is closed before the database, or with it.
 *
 * @param limitBytes the memory that it takes at most
 * @param shared the budget for what is more than 64 KiB of it
 */
private[pillarbox] final class BlindEntries private (
    database: RocksDBStore,
    limitBytes: Int,
    shared: CacheBudget,
    name: String,
    makeColumn: WriteBackCache => StateColumn
) extends AutoCloseable {
  import BlindEntries._

  private val ownBytes = math.min(limitBytes, OwnBytes)
  private val cache = new WriteBackCache(ownBytes, shared)
  database.closeFirst(this)
  private val column = makeColumn(cache)
  private val dirty = new DirtyEntries(cache, Seq(column), database, s"$name.spill")

  /** The bytes that wait in memory. */
  def used: Long = cache.used

  /** True if changes wait on the disk. */
  def isSpilled: Boolean = dirty.isSpilled

  /** Puts or deletes a key. */
  def set(key: Array[Byte], length: Int, isThere: Boolean): Unit = {
    if (cache.used >= limitBytes || cache.isFull) {
      dirty.spill()
      cache.clear()
    }
    val entry = cache.findOrAdd(column.id, key, length)
    if (isThere) cache.setValue(entry, key, 0) else cache.setAbsent(entry)
    dirty.add(column, entry)
  }

  /**
   * Deletes keys from `from` (included) to `until` (excluded) at the cost of one delete. It is written before
   * all waiting writes, which then have none left that it would have removed.
   */
  def deleteRange(from: Array[Byte], until: Array[Byte]): Unit = {
    column.unwritten.forEach(from, until)(entry =>
      if (cache.isBetween(entry, from, until)) cache.setAbsent(entry)
    )
    database.batch.deleteRange(column.familyNumber, from, until)
  }

  /** Writes all to the database; the memory that they took goes back. Not for keys that a commit is told. */
  def write(): Unit = {
    dirty.write()
    if (cache.used > ownBytes) cache.clear()
  }

  def write(from: Array[Byte], until: Array[Byte]): Unit = dirty.write(column, from, until)

  /** Hands over each key that changed, once; a deleted one has the value length -1. */
  def forEachChange(action: ChangeCursor => Unit): Unit = dirty.forEachChange((_, change) => action(change))

  def forgetChanges(): Unit = {
    dirty.forgetChanges()
    cache.clear()
  }

  /** Idempotent. */
  override def close(): Unit =
    try dirty.close()
    finally cache.close()
}

private[pillarbox] object BlindEntries {

  /** Sends keys to a column family that is not in commits. */
  def inFamily(
      database: RocksDBStore,
      family: ColumnFamilyHandle,
      limitBytes: Int,
      shared: CacheBudget
  ): BlindEntries = new BlindEntries(
    database,
    limitBytes,
    shared,
    // No change is ever spilled to it.
    "none",
    cache => {
      val column = new StateColumn(Id, Id, null, cache, groupsByHash = false)
      column.use(family, null)
      column.isLogged = false
      column
    }
  )

  /** Keeps keys for a commit only; those that memory has no room for are in a file of this name. */
  def asChanges(database: RocksDBStore, limitBytes: Int, name: String, shared: CacheBudget): BlindEntries =
    new BlindEntries(database, limitBytes, shared, name, new StateColumn(Id, -1, null, _))

  private final val Id = 0

  /** The memory that it has in any case: an executor may have hundreds. */
  private final val OwnBytes = 64 << 10
}
