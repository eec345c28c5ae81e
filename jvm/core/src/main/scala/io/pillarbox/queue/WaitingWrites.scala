package io.pillarbox.queue

import java.util.{Arrays, Comparator}

/**
 * Writes of one key group that the database doesn't have yet. Not thread-safe.
 *
 * They are handed on in the order of their keys, of each key the last one: RocksDB inserts what comes in order several
 * times faster than at random. A delete of a range comes before them, without those it would have removed.
 */
private[queue] final class WaitingWrites {
  import WaitingWrites._

  private var writes = new Array[Write](16)
  private var count = 0
  private var ranges = List.empty[Range]

  def isEmpty: Boolean = count == 0 && ranges.isEmpty

  /** What they take on the heap, about. */
  var bytes = 0

  /** Returns by how much [[bytes]] grew, as the other writes do. */
  def put(key: Array[Byte]): Int = add(new Write(key, isPut = true, count))

  def delete(key: Array[Byte]): Int = add(new Write(key, isPut = false, count))

  def deleteRange(from: Array[Byte], until: Array[Byte]): Int = {
    ranges = new Range(from, until, count) :: ranges
    grown(from.length + until.length)
  }

  /** Gives all to `target` and forgets them. */
  def moveTo(target: RocksDBWriteBuffer): Unit = {
    ranges.reverseIterator.foreach(range => target.deleteRange(range.from, range.until))
    Arrays.sort(writes, 0, count, ByKey)
    var i = 0
    while (i < count) {
      val isLast = i + 1 == count || !Arrays.equals(writes(i).key, writes(i + 1).key)
      if (isLast && !ranges.exists(_.removes(writes(i)))) writes(i).writeTo(target)
      i += 1
    }
    clear()
  }

  private def add(write: Write): Int = {
    if (count == writes.length) writes = Arrays.copyOf(writes, count * 2)
    writes(count) = write
    count += 1
    grown(write.key.length)
  }

  private def grown(keyBytes: Int): Int = {
    bytes += keyBytes + Overhead
    keyBytes + Overhead
  }

  private def clear(): Unit = {
    if (writes.length > MaxIdle) writes = new Array[Write](MaxIdle)
    else Arrays.fill(writes.asInstanceOf[Array[AnyRef]], 0, count, null)
    count = 0
    bytes = 0
    ranges = Nil
  }
}

private object WaitingWrites {
  private final val MaxIdle = 1024
  private final val Overhead = 56

  /** @param number how many came before it */
  private final class Write(val key: Array[Byte], isPut: Boolean, val number: Int) {
    def writeTo(target: RocksDBWriteBuffer): Unit = if (isPut) target.put(key) else target.delete(key)
  }

  private final class Range(val from: Array[Byte], val until: Array[Byte], number: Int) {
    def removes(write: Write): Boolean = write.number < number &&
      Arrays.compareUnsigned(write.key, from) >= 0 && Arrays.compareUnsigned(write.key, until) < 0
  }

  /** For a stable sort: writes to one key stay as they came. */
  private object ByKey extends Comparator[Write] {
    override def compare(one: Write, other: Write): Int = Arrays.compareUnsigned(one.key, other.key)
  }
}
