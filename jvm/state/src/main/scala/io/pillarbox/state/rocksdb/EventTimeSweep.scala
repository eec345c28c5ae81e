package io.pillarbox.state.rocksdb

import java.util

import io.pillarbox.api.{InputView, OutputView}
import io.pillarbox.state.rocksdb.entries.{EntryStore, StateColumn}
import io.pillarbox.state.{StateClock, Timestamped}

/**
 * Removes values and map entries that have expired by event time, which compaction does not know. It walks
 * over the database round and round, a page at a time; accesses pay for the pages. As long as it finds
 * little, a page costs more accesses. An entry that is only in the cache is new, and left for a later round.
 */
private final class EventTimeSweep(backend: RocksDBKeyedStateBackend[_], column: StateColumn) {
  import EventTimeSweep._
  private val table = backend.entries
  private val stamped = new InputView
  private val found = new OutputView(128)
  private var from = Array.emptyByteArray
  private var price = Page.toLong
  private var paid = 0L

  /** Pays for `count` entries, and looks at those that are paid for; see [[Timestamped.sweep]]. */
  def sweep(count: Int, upTo: Long, first: Long): Unit =
    if (upTo != StateClock.Unknown && column.isStored && backend.store.hidden.isEmpty) {
      paid += count
      while (paid >= price) {
        paid -= price
        price = if (finds(upTo, first)) math.max(price / 2, Page) else math.min(price * 2, MostPrice)
      }
    }

  /** Looks at the next page. True if it has found much. */
  private def finds(upTo: Long, first: Long): Boolean = {
    val page = backend.store.scan(column.family, from, null, Page)
    val spills = table.spills
    var removed, i = 0
    // What is spilled while the page is looked at is newer than the page.
    while (i < page.size && table.spills == spills) {
      if (isExpired(page.key(i), page.value(i), upTo, first)) {
        remove(page.key(i))
        removed += 1
      }
      i += 1
    }
    from =
      if (i < page.size) page.key(i)
      else if (page.isLast) Array.emptyByteArray
      else EntryStore.after(page.key(i - 1))
    removed * Much >= page.size && removed > 0
  }

  private def isExpired(key: Array[Byte], value: Array[Byte], upTo: Long, first: Long): Boolean = {
    def isOld(value: Array[Byte]) =
      Timestamped.isUpTo(stamped.wrap(value, 0, value.length).readLong(), upTo, first)
    isOld(value) && !isOfCurrentKey(key) && {
      val cached = table.cached(column, key)
      val newest = if (cached < 0) value else table.valueOf(cached)
      newest != null && isOld(newest)
    }
  }

  private def isOfCurrentKey(key: Array[Byte]): Boolean = backend.hasCurrentKey && {
    val prefix = backend.prefix
    key.length >= prefix.length &&
    util.Arrays.equals(key, 0, prefix.length, prefix.array, 0, prefix.length)
  }

  private def remove(key: Array[Byte]): Unit = {
    found.clear()
    found.writeBytes(key, 0, key.length)
    table.deleteFound(column, found)
  }
}

private object EventTimeSweep {

  /** So many entries are looked at together, as a walk has to be begun. */
  private final val Page = 1024

  /** The price of a page that follows some without finds: so many entries are paid for it. */
  private final val MostPrice = 8L * Page

  /** A find in so many entries is much. */
  private final val Much = 16
}
