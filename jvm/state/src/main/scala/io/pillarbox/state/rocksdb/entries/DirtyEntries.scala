package io.pillarbox.state.rocksdb.entries

import io.pillarbox.state.rocksdb.cache.WriteBackCache.{Changed, Unwritten}
import io.pillarbox.state.rocksdb.cache._
import io.pillarbox.state.rocksdb.store.RocksDBStore

/**
 * The entries of a cache that the database or the next commit lacks. Writes go to the database in the order
 * of their keys, and only before they are read there: those near a key, of all, or of all because the
 * cache is full, when the changed ones go to [[ChangeSpill]]. Not thread-safe.
 *
 * @param spillName the file for changes, in the database's directory
 */
private[rocksdb] final class DirtyEntries(
    cache: WriteBackCache,
    columns: collection.Seq[StateColumn],
    store: RocksDBStore,
    spillName: String
) extends AutoCloseable {
  import DirtyEntries._
  private val order = new EntryOrder(cache)
  private val spilled = new ChangeSpill(store.directory, spillName)

  /** True if changes wait on the disk. */
  def isSpilled: Boolean = !spilled.isEmpty

  /** Adds an entry that was written. */
  def add(column: StateColumn, entry: Int): Unit = {
    if (column.isKept && !cache.isUnwritten(entry)) {
      column.unwritten.add(entry)
      cache.mark(entry, Unwritten)
    }
    if (column.isLogged && !cache.isChanged(entry)) {
      column.changed.add(entry)
      cache.mark(entry, Changed)
    }
  }

  /** Writes all entries that the database lacks. */
  def write(): Unit = columns.foreach(write(_, Start, null))

  /** Writes the entries that a walk from `from` (included) to `until` (excluded; null for none) may cross. */
  def write(column: StateColumn, from: Array[Byte], until: Array[Byte]): Unit = {
    order.clear()
    column.unwritten.addTo(order, from, until)
    writeInOrder()
    column.unwritten.clear(from, until)
  }

  /** Makes the cache's entries superfluous: writes them to the database, and the changes to the disk. */
  def spill(): Unit = {
    order.clear()
    columns.foreach { column =>
      val start = order.size
      column.unwritten.addTo(order, Start, null)
      val sorted = order.size
      column.changed.foreach(entry => if (!cache.isUnwritten(entry)) order.add(entry))
      if (order.size > sorted) order.sort(start)
    }
    writeInOrder()
    columns.foreach(_.unwritten.clear(Start, null))
    if (columns.exists(!_.changed.isEmpty)) spilled.add(new CachedEntries(cache, order, Changed))
    columns.foreach(_.changed.clear())
    order.clear()
  }

  /**
   * Hands every entry that changed since the last [[forgetChanges]] to `action`, once, column by column;
   * chunks of lists, and all if some were spilled, in the order of their keys.
   */
  def forEachChange(action: (StateColumn, ChangeCursor) => Unit): Unit = {
    val isOrdered = isSpilled || columns.exists(column => column.isPacked && !column.changed.isEmpty)
    order.clear()
    columns.foreach { column =>
      val start = order.size
      column.changed.foreach(order.add)
      if (isOrdered) order.sort(start)
    }
    val cached = new CachedEntries(cache, order, Changed)
    val changes = if (isSpilled) new MergedChanges(spilled.cursors :+ cached) else cached
    while (changes.advance()) action(columns(changes.column), changes)
  }

  /** Makes all entries unchanged. */
  def forgetChanges(): Unit = {
    columns.foreach { column =>
      column.changed.foreach(cache.unmark(_, Changed))
      column.changed.clear()
    }
    spilled.clear()
  }

  override def close(): Unit = spilled.close()

  /** Writes the entries in `order` that the database lacks. */
  private def writeInOrder(): Unit = {
    val lacking = new CachedEntries(cache, order, Unwritten)
    while (lacking.advance()) {
      val column = columns(lacking.column)
      column.isStored = true
      store.batch.add(column.familyNumber, lacking)
    }
    store.batch.write()
    var i = 0
    while (i < order.size) {
      cache.unmark(order(i), Unwritten)
      i += 1
    }
  }
}

private object DirtyEntries {
  private final val Start = Array.emptyByteArray
}
