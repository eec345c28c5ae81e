package io.pillarbox.state.rocksdb

import java.util

import io.pillarbox.state.serialization.Bytes

/**
 * Puts entries of a cache in the order of their columns and keys, which is RocksDB's: what comes in order is several times
 * cheaper to insert into a memtable, and can be merged. Allocates nothing once it has grown. Not thread-safe.
 *
 * A radix sort of eight bytes at a time, most significant first (and within the eight bytes, least significant first).
 */
private[rocksdb] final class EntryOrder(cache: WriteBackCache) {
  import EntryOrder._

  private[this] var entries = new Array[Int](512)
  private[this] var words = new Array[Long](512)
  private[this] var otherEntries = new Array[Int](512)
  private[this] var otherWords = new Array[Long](512)
  private[this] val histogram = new Array[Int](8 * 256)

  var size = 0

  /** The entry at place `i`. */
  def apply(i: Int): Int = entries(i)

  def clear(): Unit = {
    size = 0
    if (entries.length > MaxIdle) resize(512)
  }

  def add(entry: Int): Unit = {
    if (size == entries.length) resize(size * 2)
    entries(size) = entry
    size += 1
  }

  def sort(): Unit = sortFrom(0, size, 0)

  private[this] def resize(capacity: Int): Unit = {
    entries = util.Arrays.copyOf(entries, capacity)
    words = new Array[Long](capacity)
    otherEntries = new Array[Int](capacity)
    otherWords = new Array[Long](capacity)
  }

  /** Sorts entries that agree in everything before byte `depth` of column and key. */
  private[this] def sortFrom(from: Int, until: Int, depth: Int): Unit =
    if (depth > MaxDepth) sortByComparison(from, until)
    else {
      var longest = 0
      var i = from
      while (i < until) {
        words(i) = wordAt(entries(i), depth)
        longest = math.max(longest, cache.keyLength(entries(i)) + ColumnBytes)
        i += 1
      }
      sortByWord(from, until)
      i = from
      while (i < until) {
        var end = i + 1
        while (end < until && words(end) == words(i)) end += 1
        if (end - i > 1)
          if (longest > depth + 8) sortFrom(i, end, depth + 8) else sortByLength(i, end)
        i = end
      }
    }

  /** Eight bytes of column and key as one number; keys are filled up with zeros. */
  private[this] def wordAt(entry: Int, depth: Int): Long =
    if (depth == 0) (cache.column(entry).toLong << 48) | (keyWord(entry, 0) >>> 16)
    else keyWord(entry, depth - ColumnBytes)

  private[this] def keyWord(entry: Int, offset: Int): Long = {
    val left = cache.keyLength(entry) - offset
    val at = cache.keyOffset(entry) + offset
    if (left >= 8) Bytes.getLong(cache.bytes, at)
    else {
      var word = 0L
      var i = 0
      while (i < left) {
        word |= (cache.bytes(at + i) & 0xffL) << (56 - 8 * i)
        i += 1
      }
      word
    }
  }

  private[this] def sortByWord(from: Int, until: Int): Unit =
    if (until - from <= Few) insert(from, until) else sortByDigits(from, until)

  private[this] def insert(from: Int, until: Int): Unit = {
    var i = from + 1
    while (i < until) {
      val (word, entry) = (words(i), entries(i))
      var at = i
      while (at > from && java.lang.Long.compareUnsigned(words(at - 1), word) > 0) {
        words(at) = words(at - 1)
        entries(at) = entries(at - 1)
        at -= 1
      }
      words(at) = word
      entries(at) = entry
      i += 1
    }
  }

  private[this] def sortByDigits(from: Int, until: Int): Unit = {
    count(from, until)
    var digit = 0
    while (digit < 8) {
      if (differ(digit, until - from, words(from))) distribute(from, until, digit)
      digit += 1
    }
  }

  private[this] def count(from: Int, until: Int): Unit = {
    util.Arrays.fill(histogram, 0)
    var i = from
    while (i < until) {
      val word = words(i)
      var digit = 0
      while (digit < 8) {
        histogram((digit << 8) | digitOf(word, digit)) += 1
        digit += 1
      }
      i += 1
    }
  }

  private[this] def differ(digit: Int, count: Int, word: Long): Boolean =
    histogram((digit << 8) | digitOf(word, digit)) != count

  /** A stable pass over one byte of the words. */
  private[this] def distribute(from: Int, until: Int, digit: Int): Unit = {
    val base = digit << 8
    var sum = from
    var i = 0
    while (i < 256) {
      val count = histogram(base + i)
      histogram(base + i) = sum
      sum += count
      i += 1
    }
    i = from
    while (i < until) {
      val slot = base | digitOf(words(i), digit)
      val to = histogram(slot)
      histogram(slot) = to + 1
      otherWords(to) = words(i)
      otherEntries(to) = entries(i)
      i += 1
    }
    System.arraycopy(otherWords, from, words, from, until - from)
    System.arraycopy(otherEntries, from, entries, from, until - from)
  }

  /** Of keys that differ only in how many zeros they end with. */
  private[this] def sortByLength(from: Int, until: Int): Unit = {
    var i = from
    while (i < until) {
      words(i) = cache.keyLength(entries(i)).toLong
      i += 1
    }
    sortByWord(from, until)
  }

  /** Of keys whose first bytes say nothing. */
  private[this] def sortByComparison(from: Int, until: Int): Unit = {
    val boxed = Array.tabulate(until - from)(i => Integer.valueOf(entries(from + i)))
    util.Arrays.sort(boxed, (one: Integer, other: Integer) => compare(one, other))
    boxed.indices.foreach(i => entries(from + i) = boxed(i))
  }

  private[this] def compare(one: Int, other: Int): Int = {
    def start(entry: Int): Int = cache.keyOffset(entry)
    def end(entry: Int): Int = cache.keyOffset(entry) + cache.keyLength(entry)
    util.Arrays.compareUnsigned(
      cache.bytes,
      start(one),
      end(one),
      cache.bytes,
      start(other),
      end(other)
    )
  }
}

private object EntryOrder {

  /** A column's number comes before the key. */
  private final val ColumnBytes = 2
  private final val Few = 40
  private final val MaxDepth = 256
  private final val MaxIdle = 1 << 20

  private def digitOf(word: Long, digit: Int): Int = (word >>> (8 * digit)).toInt & 0xff
}
