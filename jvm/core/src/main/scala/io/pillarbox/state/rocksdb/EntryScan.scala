package io.pillarbox.state.rocksdb

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
