package io.pillarbox.state.rocksdb.cache

/** The entries of a cache that were added to `order` and have `flag`, as changes. */
private[rocksdb] final class CachedEntries(cache: WriteBackCache, order: EntryOrder, flag: Int)
    extends ChangeCursor {
  private var at = -1

  override def bytes: Array[Byte] = cache.bytes

  override def advance(): Boolean = {
    at += 1
    while (at < order.size && !cache.has(order(at), flag)) at += 1
    val found = at < order.size
    if (found) show(order(at))
    found
  }

  private def show(entry: Int): Unit = {
    column = cache.column(entry)
    keyOffset = cache.keyOffset(entry)
    keyLength = cache.keyLength(entry)
    valueOffset = cache.valueOffset(entry)
    valueLength = cache.valueLength(entry)
    isPartial = cache.isPartial(entry)
  }
}
