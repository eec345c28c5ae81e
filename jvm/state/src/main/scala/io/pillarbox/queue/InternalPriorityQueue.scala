package io.pillarbox.queue

import scala.util.Using

/**
 * Hands out its elements in ascending order of [[Prioritized.priority]], then of the tie-break that it was
 * given. In a set a duplicate is an element that is `equals` (heap) or has the same bytes (byte store); the
 * one that was there first stays.
 *
 * All methods run on the mailbox thread of the task that owns the queue. `null` is never an element.
 *
 * `add` and `remove` do not tell whether an element was added or removed: they tell whether the head changed,
 * or may have changed, so that a caller who waits for the head knows when to look again. `false` is a promise
 * that the head is the one it was.
 */
private[pillarbox] trait InternalPriorityQueue[T <: Prioritized] {

  /** Removes and returns the first element, the object that `peek` gives, or `null` if there is none. */
  def poll(): T

  /** The first element, or `null` if there is none. */
  def peek(): T

  /** Adds `element`, unless the queue is a set and holds it. True if the head changed, or may have. */
  def add(element: T): Boolean

  /** Removes `element` if it is there. True if the head changed, or may have. */
  def remove(element: T): Boolean

  def isEmpty: Boolean

  /** The number of elements. A queue over a byte store may have to count them. */
  def size: Int

  /** The number of elements, counted up to `limit` at most. */
  final def sizeUpTo(limit: Int): Int = Using.resource(iterator)(_.take(limit).size)

  /** The number of elements if it is known without counting them, else -1. */
  def knownSize: Int = size

  /**
   * About the number of elements, for people to read: exact where [[size]] needs no counting. Costs little,
   * however often it is asked for.
   */
  def estimatedSize(): Long = size.toLong

  /** Adds all; cheaper than one by one where the order can be built in bulk. `null` counts as empty. */
  def addAll(elements: Iterable[T]): Unit

  /** Every element once, in no order. An element that comes or goes meanwhile may or may not be seen. */
  def iterator: CloseableIterator[T]

  /** Writes all changes to the storage below the queue: call it before a checkpoint of that storage. */
  def flush(): Unit = ()
}

/** A queue whose elements belong to key groups, to be snapshot and moved a key group at a time. */
private[pillarbox] trait KeyGroupedInternalPriorityQueue[T <: Prioritized] extends InternalPriorityQueue[T] {

  /**
   * The elements of one key group, each once, in no order: a copy, which later changes don't reach.
   *
   * @throws IllegalArgumentException if the key group is not one of the queue's
   */
  def subsetForKeyGroup(keyGroup: Int): IndexedSeq[T]
}

/**
 * Something that a queue can order: the smallest `priority` leaves first.
 *
 * The value must not change while the element is in a queue: queues copy it into primitive arrays, so that
 * finding the next element does not touch the elements themselves.
 */
private[pillarbox] trait Prioritized {
  def priority: Long
}

/**
 * An iterator that may hold native memory: close it, also when it was not read to its end.
 *
 * `close` may be called more than once. `next` past the end throws `NoSuchElementException`.
 */
private[pillarbox] trait CloseableIterator[+T] extends Iterator[T] with AutoCloseable {
  override def close(): Unit = ()
}

private[pillarbox] object CloseableIterator {

  /** Wraps an iterator that holds nothing which needs closing. */
  def of[T](underlying: Iterator[T]): CloseableIterator[T] = new CloseableIterator[T] {
    override def hasNext: Boolean = underlying.hasNext
    override def next(): T = underlying.next()
  }
}
