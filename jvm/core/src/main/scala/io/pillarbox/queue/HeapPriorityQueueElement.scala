package io.pillarbox.queue

/**
 * An element of a [[HeapPriorityQueue]]: it keeps the place the queue gave it, so it is found without a
 * search.
 *
 * An element may be in at most one heap queue at a time. Only the queue writes `internalIndex`.
 */
private[pillarbox] trait HeapPriorityQueueElement extends Prioritized {
  private[queue] final var internalIndex: Int = HeapPriorityQueueElement.NotContained
}

private[pillarbox] object HeapPriorityQueueElement {

  /** The index of an element that is in no queue; it is reset to this when the element leaves one. */
  val NotContained: Int = Int.MinValue
}
