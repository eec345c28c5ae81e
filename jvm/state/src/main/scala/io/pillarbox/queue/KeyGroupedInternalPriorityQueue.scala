package io.pillarbox.queue

/** A queue whose elements belong to key groups, to be snapshot and moved a key group at a time. */
private[pillarbox] trait KeyGroupedInternalPriorityQueue[T <: Prioritized] extends InternalPriorityQueue[T] {

  /**
   * The elements of one key group, each once, in no order: a copy, which later changes don't reach.
   *
   * @throws IllegalArgumentException if the key group is not one of the queue's
   */
  def subsetForKeyGroup(keyGroup: Int): IndexedSeq[T]

  /**
   * About the number of elements, for people to read: exact where [[size]] needs no counting. Costs little,
   * however often it is asked for.
   */
  def estimatedSize(): Long = size.toLong
}
