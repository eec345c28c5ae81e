package io.pillarbox.state.rocksdb.entries

import io.pillarbox.state.rocksdb.store.{RocksDBStore, ScanPage}

/**
 * Walks over entries in the order of their keys, each as it is at its turn, whatever was written since the
 * walk began. Holds no native object between two calls, so it needn't be closed.
 */
private[rocksdb] final class EntryScan(
    entries: EntryStore,
    store: RocksDBStore,
    column: StateColumn,
    prefix: Array[Byte],
    from: Array[Byte],
    pageSize: Int
) {
  private val until = EntryStore.successor(prefix)
  private var page: ScanPage = _
  private var at = -1

  /** The counts of [[EntryStore]] when the page was read. */
  private var writes = 0L
  private var spills = 0L

  /** The entry's value, if it was looked for in the cache after the page was read. */
  private var newer: Array[Byte] = _

  /** Moves to the next entry; false at the end. */
  def next(): Boolean = {
    advance()
    while (at < page.size && isGone) advance()
    at < page.size
  }

  def key: Array[Byte] = page.key(at)

  def value: Array[Byte] = if (newer != null) newer else page.value(at)

  private def advance(): Unit = {
    at += 1
    newer = null
    if (page == null) load(from)
    else if (at < page.size && spills != entries.spills) load(page.key(at))
    while (at >= page.size && !page.isLast) load(EntryStore.after(page.key(page.size - 1)))
  }

  /** True if the entry was removed after the page was read; if it was replaced, this takes its value. */
  private def isGone: Boolean = writes != entries.writes && {
    val cached = entries.cached(column, key)
    if (cached >= 0) newer = entries.valueOf(cached)
    cached >= 0 && newer == null
  }

  private def load(from: Array[Byte]): Unit = {
    entries.dirty.write(column, prefix, until)
    page = store.scan(column.family, from, until, pageSize)
    writes = entries.writes
    spills = entries.spills
    at = 0
  }
}
