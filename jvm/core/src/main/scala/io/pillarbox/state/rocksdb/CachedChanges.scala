package io.pillarbox.state.rocksdb

/** An entry of the cache as a change. */
private[rocksdb] abstract class CacheCursor(cache: WriteBackCache) extends ChangeCursor {
  final override def bytes: Array[Byte] = cache.bytes

  final protected def show(entry: Int): Unit = {
    column = cache.column(entry)
    keyOffset = cache.keyOffset(entry)
    keyLength = cache.keyLength(entry)
    valueOffset = cache.valueOffset(entry)
    valueLength = cache.valueLength(entry)
    isPartial = cache.isPartial(entry)
  }
}

/** The changed entries of the cache, column by column; those of a column in the order in which they changed first. */
private[rocksdb] final class CachedChanges(cache: WriteBackCache, columns: Seq[StateColumn])
    extends CacheCursor(cache) {
  private[this] val rest = columns.iterator
  private[this] var current: StateColumn = _
  private[this] var at = -1

  override def advance(): Boolean = {
    at += 1
    while ((current == null || at == current.changedCount) && rest.hasNext) {
      current = rest.next()
      at = 0
    }
    val found = current != null && at < current.changedCount
    if (found) show(current.changedEntry(at))
    found
  }
}

/** The changed entries among those that were sorted. */
private[rocksdb] final class OrderedChanges(cache: WriteBackCache, order: EntryOrder)
    extends CacheCursor(cache) {
  private[this] var at = -1

  override def advance(): Boolean = {
    at += 1
    while (at < order.size && !cache.isChanged(order(at))) at += 1
    val found = at < order.size
    if (found) show(order(at))
    found
  }
}
