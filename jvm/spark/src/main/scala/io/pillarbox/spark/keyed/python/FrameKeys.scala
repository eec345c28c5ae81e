package io.pillarbox.spark.keyed.python

import java.util

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * The keys of a frame, each with its number and its hash: open addressing, so that a row costs one hash.
 *
 * A key of one column of eight bytes is a ''word'': its value stands in an array by the key's number, so that
 * the keys themselves need not be touched. Many words are looked up at once, so that the processor fetches
 * the places of many from memory at the same time; one after the other, each waits for its own. Spark's maps
 * of rows look up one at a time.
 */
private final class FrameKeys {

  /** Numbers of keys + 1, 0 is empty; twice as many places as keys at least, a power of two. */
  private var table = new Array[Int](2048)
  private var words = new Array[Long](1024)
  private var keys = new Array[UnsafeRow](1024)
  private var hashes = new Array[Int](1024)
  private var count = 0
  private val scratch = new Array[Long](2)

  def size: Int = count

  def key(index: Int): UnsafeRow = keys(index)

  /** As [[io.pillarbox.spark.state.UnsafeRowSerializer]] has it. */
  def hash(index: Int): Int = hashes(index)

  /** The number of a key; a new one is copied. */
  def indexOf(key: UnsafeRow): Int = {
    makeRoom(1)
    val hash = key.hashCode
    if (FrameKeys.isWord(key)) indexOf(FrameKeys.wordOf(key), hash)
    else {
      var at = hash & (table.length - 1)
      while (table(at) != 0 && !isAt(table(at) - 1, key, hash)) at = next(at)
      if (table(at) != 0) table(at) - 1 else add(key.copy(), hash, 0L, at)
    }
  }

  /** Puts the numbers of keys that are words, the first `n` of `wanted`, into `indexes` from `start` on. */
  def indexesOf(wanted: Array[Long], n: Int, indexes: Array[Int], start: Int): Unit = {
    makeRoom(n)
    val mask = table.length - 1
    var i = 0
    while (i < n) {
      indexes(start + i) = table(hashOf(wanted(i)) & mask) - 1
      i += 1
    }
    i = 0
    while (i < n) {
      val found = indexes(start + i)
      if (found < 0 || words(found) != wanted(i) || !isWord(found))
        indexes(start + i) = indexOf(wanted(i), hashOf(wanted(i)))
      i += 1
    }
  }

  def foreachFrom(first: Int)(action: UnsafeRow => Unit): Unit = {
    var index = first
    while (index < count) {
      action(keys(index))
      index += 1
    }
  }

  def clear(): Unit = {
    util.Arrays.fill(table, 0)
    util.Arrays.fill(keys.asInstanceOf[Array[AnyRef]], 0, count, null)
    count = 0
  }

  /** The hash of the row that has this word as its only column. */
  private def hashOf(word: Long): Int = {
    scratch(1) = word
    Murmur3_x86_32.hashUnsafeWords(scratch, Platform.LONG_ARRAY_OFFSET.toLong, 16, FrameKeys.HashSeed)
  }

  private def indexOf(word: Long, hash: Int): Int = {
    var at = hash & (table.length - 1)
    while (table(at) != 0 && !(words(table(at) - 1) == word && isWord(table(at) - 1))) at = next(at)
    if (table(at) != 0) table(at) - 1 else add(FrameKeys.rowOf(word), hash, word, at)
  }

  private def next(at: Int): Int = (at + 1) & (table.length - 1)

  /** Other keys have the word 0, which is rare enough to look at the key. */
  private def isWord(index: Int): Boolean = words(index) != 0L || FrameKeys.isWord(keys(index))

  private def isAt(index: Int, key: UnsafeRow, hash: Int): Boolean =
    hashes(index) == hash && keys(index) == key

  private def add(key: UnsafeRow, hash: Int, word: Long, at: Int): Int = {
    keys(count) = key
    hashes(count) = hash
    words(count) = word
    count += 1
    table(at) = count
    count - 1
  }

  /** Makes room for so many new keys. */
  private def makeRoom(more: Int): Unit = {
    if (count + more > keys.length) {
      val length = Integer.highestOneBit(count + more) * 2
      keys = util.Arrays.copyOf(keys, length)
      hashes = util.Arrays.copyOf(hashes, length)
      words = util.Arrays.copyOf(words, length)
    }
    if (2 * (count + more) > table.length) enlarge(Integer.highestOneBit(count + more) * 4)
  }

  private def enlarge(length: Int): Unit = {
    table = new Array[Int](length)
    var index = 0
    while (index < count) {
      var at = hashes(index) & (length - 1)
      while (table(at) != 0) at = next(at)
      table(at) = index + 1
      index += 1
    }
  }
}

private object FrameKeys {

  /** That of the hash code of Spark's rows. */
  private final val HashSeed = 42

  /**
   * True if a row is no more than one value of eight bytes: the word of null bits, none set, and that value.
   */
  def isWord(key: UnsafeRow): Boolean =
    key.getSizeInBytes == 16 && Platform.getLong(key.getBaseObject, key.getBaseOffset) == 0L

  def wordOf(key: UnsafeRow): Long = Platform.getLong(key.getBaseObject, key.getBaseOffset + 8)

  private def rowOf(word: Long): UnsafeRow = {
    val bytes = new Array[Byte](16)
    Platform.putLong(bytes, Platform.BYTE_ARRAY_OFFSET + 8L, word)
    val row = new UnsafeRow(1)
    row.pointTo(bytes, bytes.length)
    row
  }
}
