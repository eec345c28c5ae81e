package io.pillarbox.async.queue

/**
 * The elements in flight, and the rule by which they may leave. Mailbox thread only.
 *
 * Capacity counts all that has not been emitted, also records that are done, as in Flink.
 */
private[pillarbox] trait StreamElementQueue[IN, OUT] {

  def capacity: Int

  /** Adds the entry behind all others; false, without effect, if the queue is full. */
  def tryPut(entry: StreamElementQueueEntry[IN, OUT]): Boolean

  /** Tells that the entry, which is in this queue, has its rows. Called once for an entry. */
  def complete(entry: StreamElementQueueEntry[IN, OUT]): Unit

  /** True if an element may leave now. */
  def hasCompletedElements: Boolean

  /** Removes one element that may leave, then emits it; without effect if there is none. */
  def emitCompletedElement(output: AsyncOutput[IN, OUT]): Unit

  def size: Int

  final def isEmpty: Boolean = size == 0

  /** The entry that was put before all others that are here; null if there is none. */
  def oldest: StreamElementQueueEntry[IN, OUT]

  /** All entries not yet emitted, in the order in which they were put. */
  def foreach(action: StreamElementQueueEntry[IN, OUT] => Unit): Unit
}
