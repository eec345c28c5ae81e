package io.pillarbox.queue

import java.util.function.ToIntFunction
import java.util.{Arrays, Comparator}

import io.pillarbox.state.KeyGroupRange

/**
 * A heap of the elements of several key groups with set semantics by `equals`.
 *
 * One heap and one table serve all key groups; an element is asked for its own. A duplicate add returns false
 * and changes nothing. Equal priorities leave in the order of `tieBreak`, which must agree with `equals`, or
 * in any order if it is `null`.
 *
 * @throws IllegalArgumentException from `add` and `addAll`, if an element's key group is outside
 *   `keyGroupRange`
 */
private[pillarbox] final class HeapPriorityQueueSet[T >: Null <: Prioritized](
    keyGroupRange: KeyGroupRange,
    keyGroupOf: ToIntFunction[T],
    tieBreak: Comparator[_ >: T] = null,
    initialCapacity: Int = 64
) extends HeapElementSet[T](tieBreak, initialCapacity)
    with KeyGroupedInternalPriorityQueue[T] {

  private var index: KeyGroupIndex = KeyGroupIndex.None

  override def subsetForKeyGroup(keyGroup: Int): IndexedSeq[T] = {
    keyGroupRange.check(keyGroup, "asked for")
    if (index.builtAt != changeCount) index = indexByKeyGroup()
    val group = keyGroup - keyGroupRange.start
    (index.starts(group) until index.starts(group + 1)).map(at => elementAt(index.handles(at)))
  }

  override protected def entering(element: T): Unit = {
    if (index ne KeyGroupIndex.None) index = KeyGroupIndex.None
    val keyGroup = keyGroupOf.applyAsInt(element)
    keyGroupRange.check(keyGroup, element)
  }

  /** Sorts the live handles by key group, by counting. */
  private def indexByKeyGroup(): KeyGroupIndex = {
    val starts = new Array[Int](keyGroupRange.size + 1)
    val groups = new Array[Short](handleLimit)
    forEachLive { handle =>
      groups(handle) = (keyGroupOf.applyAsInt(elementAt(handle)) - keyGroupRange.start).toShort
      starts(groups(handle) + 1) += 1
    }
    for (group <- 1 until starts.length) starts(group) += starts(group - 1)
    val handles = new Array[Int](size)
    val next = Arrays.copyOf(starts, keyGroupRange.size)
    forEachLive { handle =>
      val group = groups(handle).toInt
      handles(next(group)) = handle
      next(group) += 1
    }
    new KeyGroupIndex(changeCount, starts, handles)
  }

  private def forEachLive(action: Int => Unit): Unit = {
    var handle = 0
    while (handle < handleLimit) {
      if (isLive(handle)) action(handle)
      handle += 1
    }
  }
}

/** Handles sorted by key group: those of group `g` are at `starts(g) until starts(g + 1)`. */
private final class KeyGroupIndex(val builtAt: Int, val starts: Array[Int], val handles: Array[Int])

private object KeyGroupIndex {
  val None = new KeyGroupIndex(-1, Array.emptyIntArray, Array.emptyIntArray)
}
