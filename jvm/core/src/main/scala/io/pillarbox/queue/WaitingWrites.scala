package io.pillarbox.queue

import java.util.Arrays

/**
 * Writes of one key group that the database doesn't have yet. Not thread-safe.
 *
 * They are handed on in the order of their keys, of each key the last one: RocksDB inserts what comes in order several
 * times faster than at random. A delete of a range comes before them, without those it would have removed.
 *
 * Keys lie one behind the other in one array, so that as many as possible wait in the same memory: the more come at a time,
 * the nearer neighbours are to each other in the database, and the cheaper each is.
 *
 * @param keyOffset how many bytes all keys have in common at their start
 */
private[queue] final class WaitingWrites(keyOffset: Int) {
  import WaitingWrites._

  private var keys = new Array[Byte](FirstWrites * FirstKeyBytes)

  /** Where each key ends, times two, and one more for a put. */
  private var ends = new Array[Int](FirstWrites)

  /** The first eight bytes of each key behind what all have in common, as a number that compares as they do. */
  private var leads = new Array[Long](FirstWrites)
  private var count = 0
  private var ranges = List.empty[Range]

  def isEmpty: Boolean = count == 0 && ranges.isEmpty

  /** What they take on the heap, about. */
  var bytes = 0

  /** Returns by how much [[bytes]] grew, as the other writes do. */
  def put(key: Array[Byte]): Int = add(key, isPut = 1)

  def delete(key: Array[Byte]): Int = add(key, isPut = 0)

  def deleteRange(from: Array[Byte], until: Array[Byte]): Int = {
    ranges = new Range(from, until, count) :: ranges
    grown(from.length + until.length)
  }

  /** Gives all to `target` and forgets them. */
  def moveTo(target: RocksDBWriteBuffer, order: WriteOrder): Unit = {
    ranges.reverseIterator.foreach(range => target.deleteRange(range.from, range.until))
    order.sort(count, leads, compare)
    var i = 0
    while (i < count) {
      val write = order(i)
      val isLast = i + 1 == count || compare(write, order(i + 1)) != 0
      if (isLast && !isRemoved(write)) writeTo(target, write)
      i += 1
    }
    clear()
  }

  private def add(key: Array[Byte], isPut: Int): Int = {
    val start = startOf(count)
    if (count == ends.length) {
      ends = Arrays.copyOf(ends, count * 2)
      leads = Arrays.copyOf(leads, count * 2)
    }
    if (keys.length - start < key.length)
      keys = Arrays.copyOf(keys, math.max(keys.length * 2, start + key.length))
    System.arraycopy(key, 0, keys, start, key.length)
    ends(count) = (start + key.length) << 1 | isPut
    leads(count) = OrderPreserving.leadOf(key, keyOffset)
    count += 1
    grown(key.length)
  }

  private def grown(keyBytes: Int): Int = {
    bytes += keyBytes + Overhead
    keyBytes + Overhead
  }

  private def startOf(write: Int): Int = if (write == 0) 0 else ends(write - 1) >>> 1

  private def endOf(write: Int): Int = ends(write) >>> 1

  /** By whole keys. */
  private def compare(one: Int, other: Int): Int =
    Arrays.compareUnsigned(keys, startOf(one), endOf(one), keys, startOf(other), endOf(other))

  private def isRemoved(write: Int): Boolean = ranges.nonEmpty && {
    val key = Arrays.copyOfRange(keys, startOf(write), endOf(write))
    ranges.exists(_.removes(key, write))
  }

  private def writeTo(target: RocksDBWriteBuffer, write: Int): Unit = {
    val start = startOf(write)
    if ((ends(write) & 1) != 0) target.put(keys, start, endOf(write) - start)
    else target.delete(keys, start, endOf(write) - start)
  }

  private def clear(): Unit = {
    if (ends.length > MaxIdleWrites || keys.length > MaxIdleBytes) {
      keys = new Array[Byte](FirstWrites * FirstKeyBytes)
      ends = new Array[Int](FirstWrites)
      leads = new Array[Long](FirstWrites)
    }
    count = 0
    bytes = 0
    ranges = Nil
  }
}

private object WaitingWrites {
  private final val FirstWrites = 16
  private final val FirstKeyBytes = 32
  private final val MaxIdleWrites = 1024
  private final val MaxIdleBytes = 32 << 10

  /** Beside its key a write takes an end and a lead. */
  private final val Overhead = 12

  /** @param number how many writes came before it */
  private final class Range(val from: Array[Byte], val until: Array[Byte], number: Int) {
    def removes(key: Array[Byte], write: Int): Boolean = write < number &&
      Arrays.compareUnsigned(key, from) >= 0 && Arrays.compareUnsigned(key, until) < 0
  }
}
