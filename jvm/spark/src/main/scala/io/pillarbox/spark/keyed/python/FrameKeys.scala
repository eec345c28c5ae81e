package io.pillarbox.spark.keyed.python

import java.util

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * The keys of a frame, each with its number and its hash: open addressing, so that a row costs one hash.
 *
 * A key of one column of eight bytes stands in the table itself; so a row of a known key touches one cache line of it,
 * and nothing else, however many keys there are.
 */
final private class FrameKeys {

  /** Pairs of a head (see [[headOf]], 0 is empty) and a key's word; twice as many as keys at least, a power of two. */
  private var table = new Array[Long](2 * 2048)
  private var keys = new Array[UnsafeRow](1024)
  private var hashes = new Array[Int](1024)
  private var count = 0

  def size: Int = count

  def key(slot: Int): UnsafeRow = keys(slot)

  /** As [[io.pillarbox.spark.keyed.UnsafeRowSerializer]] has it. */
  def hash(slot: Int): Int = hashes(slot)

  /** The number of a key; a new one is copied. */
  def slotOf(key: UnsafeRow): Int = {
    val hash = key.hashCode
    val isWord = FrameKeys.isWord(key)
    val word = if (isWord) FrameKeys.wordOf(key) else 0L
    var at = placeOf(hash)
    while (table(at) != 0L && !isAt(at, key, hash, isWord, word)) at = (at + 2) & (table.length - 1)
    if (table(at) != 0L) FrameKeys.slotOf(table(at)) else add(key.copy(), hash, at)
  }

  def foreachFrom(first: Int)(action: UnsafeRow => Unit): Unit = {
    var slot = first
    while (slot < count) {
      action(keys(slot))
      slot += 1
    }
  }

  def clear(): Unit = {
    util.Arrays.fill(table, 0L)
    util.Arrays.fill(keys.asInstanceOf[Array[AnyRef]], 0, count, null)
    count = 0
  }

  private def placeOf(hash: Int): Int = (2 * hash) & (table.length - 1)

  private def isAt(at: Int, key: UnsafeRow, hash: Int, isWord: Boolean, word: Long): Boolean = {
    val head = table(at)
    (head >>> 32).toInt == hash && FrameKeys.isWord(head) == isWord &&
    (if (isWord) table(at + 1) == word else keys(FrameKeys.slotOf(head)) == key)
  }

  private def add(key: UnsafeRow, hash: Int, at: Int): Int = {
    if (count == keys.length) {
      keys = util.Arrays.copyOf(keys, 2 * count)
      hashes = util.Arrays.copyOf(hashes, 2 * count)
    }
    keys(count) = key
    hashes(count) = hash
    count += 1
    if (4 * count > table.length) enlarge() else enter(at, count - 1)
    count - 1
  }

  private def enter(at: Int, slot: Int): Unit = {
    val key = keys(slot)
    val isWord = FrameKeys.isWord(key)
    table(at) = FrameKeys.headOf(hashes(slot), isWord, slot)
    if (isWord) table(at + 1) = FrameKeys.wordOf(key)
  }

  private def enlarge(): Unit = {
    table = new Array[Long](table.length * 2)
    var slot = 0
    while (slot < count) {
      var at = placeOf(hashes(slot))
      while (table(at) != 0L) at = (at + 2) & (table.length - 1)
      enter(at, slot)
      slot += 1
    }
  }
}

private object FrameKeys {
  private final val WordFlag = 1L << 31

  /** The hash, whether the key stands beside it, and its number + 1. */
  private def headOf(hash: Int, isWord: Boolean, slot: Int): Long =
    (hash.toLong << 32) | (if (isWord) WordFlag else 0L) | (slot + 1)

  private def slotOf(head: Long): Int = (head & (WordFlag - 1)).toInt - 1

  private def isWord(head: Long): Boolean = (head & WordFlag) != 0L

  /** Whether a row is no more than one value of eight bytes: the word of null bits, none set, and that value. */
  private def isWord(key: UnsafeRow): Boolean =
    key.getSizeInBytes == 16 && Platform.getLong(key.getBaseObject, key.getBaseOffset) == 0L

  private def wordOf(key: UnsafeRow): Long = Platform.getLong(key.getBaseObject, key.getBaseOffset + 8)
}
