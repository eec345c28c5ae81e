package io.pillarbox.queue

import java.util.Arrays

/**
 * Keys that were polled and must still be deleted from the store.
 *
 * Polling goes upwards, and nothing alive stands in the store between two keys that were polled one after the
 * other. So a few are deleted one by one, and many as one range: a stream that fires a thousand timers of a
 * key group writes one delete for them, not a thousand.
 *
 * For that to stay so, [[deleteFrom]] must come before a key is written at or below the greatest polled one.
 */
private[queue] final class PolledKeys(store: OrderedByteStore, rangeLimit: Int) {
  import PolledKeys._

  private val single = new Array[Array[Byte]](SingleLimit)
  private var count = 0
  private var smallest: Array[Byte] = _
  private var greatest: Array[Byte] = _

  /** Adds a key that the store has. */
  def add(key: Array[Byte]): Unit = {
    if (count < SingleLimit) single(count) = key
    if (count == 0 || Arrays.compareUnsigned(key, smallest) < 0) smallest = key
    if (count == 0 || Arrays.compareUnsigned(key, greatest) > 0) greatest = key
    count += 1
    if (count >= rangeLimit) deleteAll()
  }

  /** Deletes the polled keys, if any of them is at or above `key`. */
  def deleteFrom(key: Array[Byte]): Unit =
    if (count > 0 && Arrays.compareUnsigned(greatest, key) >= 0) deleteAll()

  def deleteAll(): Unit = if (count > 0) {
    if (count <= SingleLimit) {
      for (index <- 0 until count) store.delete(single(index))
    } else store.deleteRange(smallest, Arrays.copyOf(greatest, greatest.length + 1))
    Arrays.fill(single.asInstanceOf[Array[AnyRef]], null)
    count = 0
    smallest = null
    greatest = null
  }
}

private object PolledKeys {

  /** Up to this number, deletes cost less than a range delete, which every later read has to look at. */
  private final val SingleLimit = 16
}
