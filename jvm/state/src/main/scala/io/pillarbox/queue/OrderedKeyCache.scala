package io.pillarbox.queue

import java.util.Arrays

/**
 * A bounded sorted array of keys, the smallest first, each with a mark that tells if the store has it too. A
 * `TreeMap` would take an object a key and compare whole keys all the way down.
 *
 * Beside every key stands its first eight bytes after the key group as a number that compares as they do, so
 * that a search reads one primitive array, and keys only where those are equal. The keys sit in the middle of
 * the arrays: taking the first is a step of an index, and an insert moves the shorter side.
 *
 * @param limit the number of keys it may hold; one more for the moment between an insert and `removeLast`
 * @param keyOffset the number of bytes that all keys have in common at their start
 */
private[queue] final class OrderedKeyCache(limit: Int, keyOffset: Int) {
  private var keys = new Array[Array[Byte]](math.min(limit + 1, OrderedKeyCache.FirstLength))
  private var leads = new Array[Long](keys.length)
  private var stored = new Array[Boolean](keys.length)
  private var start = 0
  private var count = 0
  private var unstored = 0

  def size: Int = count

  def isEmpty: Boolean = count == 0

  def isOverLimit: Boolean = count > limit

  def first: Array[Byte] = keys(start)

  def last: Array[Byte] = keys(start + count - 1)

  def isStored(index: Int): Boolean = stored(start + index)

  def apply(index: Int): Array[Byte] = keys(start + index)

  /** The index of `key`, or `-(index where it belongs) - 1`, as in `Arrays.binarySearch`. */
  def search(key: Array[Byte]): Int = {
    val lead = OrderPreserving.leadOf(key, keyOffset)
    var low = 0
    var high = count - 1
    while (low <= high) {
      val middle = (low + high) >>> 1
      val order = compare(middle, lead, key)
      if (order < 0) low = middle + 1
      else if (order > 0) high = middle - 1
      else return middle
    }
    -low - 1
  }

  def insert(index: Int, key: Array[Byte], isStored: Boolean): Unit = {
    val at = openGap(index)
    keys(at) = key
    leads(at) = OrderPreserving.leadOf(key, keyOffset)
    stored(at) = isStored
    count += 1
    if (!isStored) unstored += 1
  }

  def removeFirst(): Unit = {
    forget(start)
    start += 1
    count -= 1
    if (count == 0) start = 0
  }

  def removeLast(): Unit = {
    forget(start + count - 1)
    count -= 1
  }

  def remove(index: Int): Unit =
    if (index == 0) removeFirst()
    else {
      val at = start + index
      if (!stored(at)) unstored -= 1
      move(at + 1, at, count - index - 1)
      count -= 1
      keys(start + count) = null
    }

  /** Marks all keys as stored, and calls `action` with those that were not. */
  def markAllStored(action: Array[Byte] => Unit): Unit =
    if (unstored > 0) {
      var at = start
      while (at < start + count) {
        if (!stored(at)) action(keys(at))
        stored(at) = true
        at += 1
      }
      unstored = 0
    }

  def toArray: Array[Array[Byte]] = Arrays.copyOfRange(keys, start, start + count)

  private def forget(at: Int): Unit = {
    if (!stored(at)) unstored -= 1
    keys(at) = null
  }

  private def compare(index: Int, lead: Long, key: Array[Byte]): Int = {
    val own = leads(start + index)
    if (own != lead) java.lang.Long.compare(own, lead)
    else {
      val ownKey = keys(start + index)
      Arrays.compareUnsigned(ownKey, keyOffset, ownKey.length, key, keyOffset, key.length)
    }
  }

  private def openGap(index: Int): Int = {
    if (count == keys.length) resize(math.min(limit + 1, count * 2))
    val roomBehind = start + count < keys.length
    if (start > 0 && (index <= count / 2 || !roomBehind)) {
      move(start, start - 1, index)
      start -= 1
    } else {
      move(start + index, start + index + 1, count - index)
    }
    start + index
  }

  private def resize(length: Int): Unit = {
    keys = Arrays.copyOf(keys, length)
    leads = Arrays.copyOf(leads, length)
    stored = Arrays.copyOf(stored, length)
  }

  private def move(from: Int, to: Int, length: Int): Unit = if (length > 0) {
    System.arraycopy(keys, from, keys, to, length)
    System.arraycopy(leads, from, leads, to, length)
    System.arraycopy(stored, from, stored, to, length)
  }
}

private object OrderedKeyCache {
  private final val FirstLength = 16
}
