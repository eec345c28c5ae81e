package io.pillarbox.queue

import java.util.Comparator

/**
 * The queue of a batch whose input is sorted by key: it only ever holds elements of one key.
 *
 * So it has no key groups, and stays as small as the biggest key. Set semantics by `equals`. Nothing is
 * snapshot in a batch, hence `subsetForKeyGroup` throws `UnsupportedOperationException`.
 */
private[pillarbox] final class BatchExecutionInternalPriorityQueueSet[T >: Null <: Prioritized](
    tieBreak: Comparator[_ >: T] = null,
    initialCapacity: Int = 16
) extends HeapElementSet[T](tieBreak, initialCapacity)
    with KeyGroupedInternalPriorityQueue[T] {

  override def subsetForKeyGroup(keyGroup: Int): IndexedSeq[T] = throw new UnsupportedOperationException(
    s"Key group $keyGroup was asked for, but a batch keeps one key at a time and no key groups: " +
      "batch execution takes no snapshots; use HeapPriorityQueueSet in a stream"
  )

  override protected def entering(element: T): Unit = ()
}
