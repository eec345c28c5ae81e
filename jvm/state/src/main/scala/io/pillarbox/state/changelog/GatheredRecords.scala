package io.pillarbox.state.changelog

import io.pillarbox.api.OutputView
import io.pillarbox.state.KeyGroupRange
import io.pillarbox.state.changelog.StateStreamFormat.BlockSize

/**
 * Serialised records by key group, each in its buffer. Not thread-safe.
 *
 * So a table can be written in the order of its memory, which the processor fetches ahead, though the stream
 * wants key groups together; visiting the entries key group by key group is a miss of all caches for each key
 * and value.
 *
 * @param expected the number of records, about
 */
private[changelog] final class GatheredRecords(val range: KeyGroupRange, expected: Int) {
  private val initialCapacity = math.min(
    expected.toLong * GatheredRecords.RecordBytes / range.size + GatheredRecords.RecordBytes,
    GatheredRecords.Limit / range.size * 5L / 4
  )
  private val counts = new Array[Int](range.size)
  private var group = 0
  private var from = 0

  /** The buffers by key group, from the first of the range; null where there never was a record. */
  val views: Array[OutputView] = new Array[OutputView](range.size)

  var bytes = 0L

  /** Returns the buffer for the next record. */
  def begin(keyGroup: Int): OutputView = {
    group = keyGroup - range.start
    if (views(group) == null) views(group) = new OutputView(initialCapacity.toInt)
    from = views(group).length
    views(group)
  }

  def end(): Unit = {
    counts(group) += 1
    bytes += views(group).length - from
  }

  /** The number of records in the buffers from `from` to below `until`. */
  def count(from: Int, until: Int): Int = {
    var sum = 0
    for (i <- from until until) sum += counts(i)
    sum
  }

  /** Calls `action` for neighbouring buffers that make a block together, none of them empty as a whole. */
  def forEachBlock(action: (Int, Int) => Unit): Unit = {
    var first = 0
    var length = 0L
    for (i <- views.indices if views(i) != null && views(i).length > 0) {
      if (length == 0) first = i
      length += views(i).length
      if (length >= BlockSize) {
        action(first, i + 1)
        length = 0
      }
    }
    if (length > 0) action(first, views.length)
  }

  def clear(): Unit = {
    for (i <- views.indices if views(i) != null) {
      views(i).clear()
      views(i).shrinkTo(BlockSize * 16)
      counts(i) = 0
    }
    bytes = 0
  }
}

private[changelog] object GatheredRecords {

  /** The bytes beyond which the records are written. */
  final val Limit: Long = 1L << 20

  /** The size of a small record, so that buffers seldom grow. */
  private final val RecordBytes = 40L
}
