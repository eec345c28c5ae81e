package io.pillarbox.state.rocksdb.cache

import java.util

import io.pillarbox.api.{Bytes, InputView}

/** Entries in the order in which they were added. */
private[rocksdb] final class EntryList {
  private var entries = new Array[Int](16)
  private var count = 0

  def isEmpty: Boolean = count == 0

  def add(entry: Int): Unit = {
    if (count == entries.length) entries = util.Arrays.copyOf(entries, count * 2)
    entries(count) = entry
    count += 1
  }

  def foreach(action: Int => Unit): Unit = {
    var i = 0
    while (i < count) {
      action(entries(i))
      i += 1
    }
  }

  def clear(): Unit = count = 0
}

/**
 * Entries in groups, so that those near a key are found without a look at all others. Bounds of keys are
 * `from` (included) and `until` (excluded; null for none), and select the groups that have keys between them.
 *
 * @param byHash true for composite keys of a state, which go by the hash of their key; then `from` is
 *   empty, or begins with a whole key, which all up to `until` have. Else by the first two bytes, in their
 *   order; shorter keys are filled up with zeros
 */
private[rocksdb] final class GroupedEntries(keys: WriteBackCache, byHash: Boolean) {
  private val view = new InputView
  private var groups = new Array[EntryList](0)

  def add(entry: Int): Unit = {
    val group = groupOf(keys.bytes, keys.keyOffset(entry), keys.keyLength(entry))
    if (group >= groups.length) groups = util.Arrays.copyOf(groups, math.max(group + 1, groups.length * 2))
    if (groups(group) == null) groups(group) = new EntryList
    groups(group).add(entry)
  }

  /** Adds entries to `order`, sorted. */
  def addTo(order: EntryOrder, from: Array[Byte], until: Array[Byte]): Unit = {
    val start = order.size
    forEach(from, until)(order.add)
    order.sort(start)
  }

  def clear(from: Array[Byte], until: Array[Byte]): Unit = forEachGroup(from, until)(_.clear())

  def forEach(from: Array[Byte], until: Array[Byte])(action: Int => Unit): Unit =
    forEachGroup(from, until)(_.foreach(action))

  private def forEachGroup(from: Array[Byte], until: Array[Byte])(action: EntryList => Unit): Unit = {
    val first = if (from.length == 0) 0 else groupOf(from, 0, from.length)
    val last = math.min(lastBefore(first, from, until), groups.length - 1)
    var group = first
    while (group <= last) {
      if (groups(group) != null && !groups(group).isEmpty) action(groups(group))
      group += 1
    }
  }

  private def groupOf(key: Array[Byte], offset: Int, length: Int): Int =
    if (byHash) {
      val size = view.wrap(key, offset, length).readVarInt()
      Bytes.hash(key, view.position, size) & GroupedEntries.HashMask
    } else byteAt(key, offset, length, 0) << 8 | byteAt(key, offset, length, 1)

  private def byteAt(key: Array[Byte], offset: Int, length: Int, i: Int): Int =
    if (i < length) key(offset + i) & 0xff else 0

  /** The last group before `until`; a key that ends with a zero comes after the key without it. */
  private def lastBefore(first: Int, from: Array[Byte], until: Array[Byte]): Int =
    if (until == null || byHash && from.length == 0) Int.MaxValue
    else if (byHash) first
    else {
      val isStart = until.length <= 2 && (until.length == 0 || until.last != 0)
      if (isStart) groupOf(until, 0, until.length) - 1 else groupOf(until, 0, until.length)
    }
}

private object GroupedEntries {
  private final val HashMask = 127
}
