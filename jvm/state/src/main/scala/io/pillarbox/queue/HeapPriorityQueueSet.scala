package io.pillarbox.queue

import java.util.Comparator
import java.util.function.ToIntFunction

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

  override def subsetForKeyGroup(keyGroup: Int): IndexedSeq[T] = {
    keyGroupRange.check(keyGroup, "asked for")
    iterator.filter(keyGroupOf.applyAsInt(_) == keyGroup).toIndexedSeq
  }

  override protected def entering(element: T): Unit = {
    val keyGroup = keyGroupOf.applyAsInt(element)
    keyGroupRange.check(keyGroup, element)
  }
}
