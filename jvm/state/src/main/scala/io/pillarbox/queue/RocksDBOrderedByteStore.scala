package io.pillarbox.queue

import io.pillarbox.state.rocksdb.cache.CacheBudget
import io.pillarbox.state.rocksdb.entries.BlindEntries
import io.pillarbox.state.rocksdb.store.RocksDBStore
import org.rocksdb.ColumnFamilyHandle

/**
 * A column family of a database as an ordered set of keys; the values are empty.
 *
 * Writes wait on the heap and reach the database in one batch, in order: all of them when `limitBytes` are
 * full and at `flush`, those of the scanned key groups before a scan. Scans have an upper bound, so they
 * never walk through deletes of other key groups. The caller owns the database, and closes it after the last
 * use of this.
 *
 * @param limitBytes the bytes that may wait, about
 * @param shared the budget for the memory that it takes beyond a little
 * @param isMine false for keys that are left out, as those of another database; null if there are none
 */
private[pillarbox] final class RocksDBOrderedByteStore(
    database: RocksDBStore,
    family: ColumnFamilyHandle,
    limitBytes: Int = RocksDBOrderedByteStore.DefaultLimitBytes,
    isMine: Array[Byte] => Boolean = null,
    shared: CacheBudget = CacheBudget.Unlimited
) extends OrderedByteStore {
  private val entries = BlindEntries.inFamily(database, family, limitBytes, shared)

  override def put(key: Array[Byte]): Unit = entries.set(key, key.length, isThere = true)

  override def delete(key: Array[Byte]): Unit = entries.set(key, key.length, isThere = false)

  override def deleteRange(from: Array[Byte], until: Array[Byte]): Unit = entries.deleteRange(from, until)

  override def flush(): Unit = entries.write()

  override def scan(from: Array[Byte], until: Array[Byte]): OrderedByteCursor = {
    entries.write(from, until)
    // Asked before the cursor is made: what the cursor sees may leave the database meanwhile.
    val shows = if (database.hidden.isEmpty) null else isMine
    val found = database.cursor(family, from, until)
    new OrderedByteCursor {
      override def advance(): Boolean = {
        var more = found.advance()
        while (more && shows != null && !shows(found.key)) more = found.advance()
        more
      }
      override def key: Array[Byte] = found.key
      override def close(): Unit = found.close()
    }
  }
}

private[pillarbox] object RocksDBOrderedByteStore {

  /**
   * Holds about 34,000 timers with short keys: the more come at a time, the nearer neighbours are, and the
   * cheaper each is.
   */
  val DefaultLimitBytes: Int = 2 << 20
}
