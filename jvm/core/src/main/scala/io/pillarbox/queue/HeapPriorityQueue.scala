package io.pillarbox.queue

import java.util.{Arrays, Comparator}

import HeapPriorityQueueElement.NotContained
import IndexedHeap.NoHandle

/**
 * A heap whose elements know their place, so that any of them is removed in O(log n).
 *
 * No set semantics: an equal element is another element. `remove` takes out the very object, and nothing if
 * it is not in this queue. Equal priorities leave in the order of `tieBreak`, or in any order if it is
 * `null`.
 */
private[pillarbox] final class HeapPriorityQueue[T >: Null <: HeapPriorityQueueElement](
    tieBreak: Comparator[_ >: T] = null,
    initialCapacity: Int = 16
) extends IndexedHeap(initialCapacity, tieBreak != null)
    with InternalPriorityQueue[T] {

  private var elements = new Array[AnyRef](handleCapacity)

  override def peek(): T = if (topHandle == NoHandle) null else elementAt(topHandle)

  override def poll(): T = {
    val handle = topHandle
    if (handle == NoHandle) null
    else {
      val element = elementAt(handle)
      takeOut(element)
      element
    }
  }

  /** @throws IllegalArgumentException if the element is in a heap queue already */
  override def add(element: T): Boolean = place(register(element), element.priority)

  override def remove(element: T): Boolean = isHere(element) && takeOut(element)

  /**
   * Moves an element whose priority changed to its new place. True if the head changed, or may have.
   *
   * @throws IllegalArgumentException if the element is not in this queue
   */
  def adjustModifiedElement(element: T): Boolean = {
    if (!isHere(element)) throw new IllegalArgumentException(s"$element is not in this queue: add it first")
    val handle = element.internalIndex
    val wasTop = isTop(handle)
    adjust(handle, element.priority)
    wasTop || isTop(handle)
  }

  override def isEmpty: Boolean = entryCount == 0

  override def size: Int = entryCount

  override def addAll(more: Iterable[T]): Unit = if (more != null && more.nonEmpty) {
    try more.foreach(element => append(register(element), element.priority))
    finally heapify()
  }

  def clear(): Unit = {
    iterator.foreach(_.internalIndex = NotContained)
    clearHeap()
    Arrays.fill(elements, null)
  }

  override def iterator: CloseableIterator[T] =
    CloseableIterator.of(Iterator.range(0, handleLimit).filter(isLive).map(elementAt))

  override protected def compareTies(handle: Int, other: Int): Int =
    tieBreak.compare(elementAt(handle), elementAt(other))

  override protected def handlesGrew(capacity: Int): Unit = elements = Arrays.copyOf(elements, capacity)

  private def elementAt(handle: Int): T = elements(handle).asInstanceOf[T]

  private def isHere(element: T): Boolean =
    contains(element.internalIndex) && (elements(element.internalIndex) eq element)

  private def register(element: T): Int = {
    if (element.internalIndex != NotContained) {
      throw new IllegalArgumentException(s"$element is in a heap queue already: remove it there first")
    }
    val handle = allocate()
    elements(handle) = element
    element.internalIndex = handle
    handle
  }

  private def takeOut(element: T): Boolean = {
    val handle = element.internalIndex
    elements(handle) = null
    element.internalIndex = NotContained
    removeHandle(handle)
  }
}
