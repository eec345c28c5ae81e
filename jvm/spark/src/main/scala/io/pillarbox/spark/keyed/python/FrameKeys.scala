package io.pillarbox.spark.keyed.python

import java.util

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** The keys of a frame, each with its number and its hash: open addressing, so that a row costs one hash. */
final private class FrameKeys {

  /** Of numbers + 1; 0 is empty. The length is a power of two, at least twice the size. */
  private var table = new Array[Int](2048)
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
    var at = hash & (table.length - 1)
    while (table(at) != 0 && !isAt(table(at) - 1, key, hash)) at = (at + 1) & (table.length - 1)
    if (table(at) != 0) table(at) - 1 else add(key.copy(), hash, at)
  }

  def foreachFrom(first: Int)(action: UnsafeRow => Unit): Unit = {
    var slot = first
    while (slot < count) {
      action(keys(slot))
      slot += 1
    }
  }

  def clear(): Unit = {
    util.Arrays.fill(table, 0)
    util.Arrays.fill(keys.asInstanceOf[Array[AnyRef]], 0, count, null)
    count = 0
  }

  private def isAt(slot: Int, key: UnsafeRow, hash: Int): Boolean = hashes(slot) == hash && keys(slot) == key

  private def add(key: UnsafeRow, hash: Int, at: Int): Int = {
    if (count == keys.length) {
      keys = util.Arrays.copyOf(keys, 2 * count)
      hashes = util.Arrays.copyOf(hashes, 2 * count)
    }
    keys(count) = key
    hashes(count) = hash
    count += 1
    if (2 * count > table.length) enlarge() else table(at) = count
    count - 1
  }

  private def enlarge(): Unit = {
    table = new Array[Int](table.length * 2)
    var slot = 0
    while (slot < count) {
      var at = hashes(slot) & (table.length - 1)
      while (table(at) != 0) at = (at + 1) & (table.length - 1)
      table(at) = slot + 1
      slot += 1
    }
  }
}
