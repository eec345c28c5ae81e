package io.pillarbox.state.heap

import java.util

/**
 * The removed elements of lists that the last commit has, as runs of numbers. Not thread-safe.
 *
 * It stands apart from the lists, so that a cleared list is nothing but garbage and the next one begins in
 * new memory.
 */
private[heap] final class RemovedElements {
  import RemovedElements._

  private var owners = new Array[Int](Initial)
  private var starts = new Array[Long](Initial)
  private var counts = new Array[Int](Initial)
  private var size = 0

  /** @param owner the position of the list in its table, which stays the list's until the next commit */
  def add(owner: Int, from: Long, count: Int): Unit =
    if (size > 0 && owners(size - 1) == owner && starts(size - 1) + counts(size - 1) == from)
      counts(size - 1) += count
    else {
      if (size == owners.length) grow(size * 2)
      owners(size) = owner
      starts(size) = from
      counts(size) = count
      size += 1
    }

  /** Calls `action` with owner and number of each element, in the order of [[add]]. */
  def forEach(action: (Int, Long) => Unit): Unit = {
    var run = 0
    while (run < size) {
      var i = 0
      while (i < counts(run)) {
        action(owners(run), starts(run) + i)
        i += 1
      }
      run += 1
    }
  }

  def clear(): Unit = {
    size = 0
    if (owners.length > MaxIdle) grow(Initial)
  }

  private def grow(capacity: Int): Unit = {
    owners = util.Arrays.copyOf(owners, capacity)
    starts = util.Arrays.copyOf(starts, capacity)
    counts = util.Arrays.copyOf(counts, capacity)
  }
}

private[heap] object RemovedElements {

  /** Stands for the record of a list's access time. */
  final val AccessTime = -2L
  private final val Initial = 16

  /** The most runs for which room is kept from one commit to the next. */
  private final val MaxIdle = 1 << 16
}
