package io.pillarbox.queue

import java.util.{Arrays, Comparator}

import IndexedHeap.NoHandle

/**
 * A heap with set semantics by `equals`, in arrays: what the two heap queue sets have in common.
 *
 * Beside the heap stands an open-addressing table with linear probing. A slot is one `Long`: the element's hash
 * above, its handle + 1 below, 0 if empty. So a probe that misses reads one cache line and calls no `equals`, and
 * the table grows and closes its gaps without asking an element for its hash again. Removal moves later entries
 * of a run back instead of leaving tombstones (Knuth, TAOCP vol. 3, 6.4, algorithm R).
 */
private[queue] abstract class HeapElementSet[T >: Null <: Prioritized](
    tieBreak: Comparator[_ >: T],
    initialCapacity: Int
) extends IndexedHeap(initialCapacity, tieBreak != null)
    with InternalPriorityQueue[T] {
  import HeapElementSet._

  private var elements = new Array[AnyRef](handleCapacity)
  private var table = new Array[Long](tableSizeFor(handleCapacity))
  private var changes = 0

  /** Called once for every element that is about to enter; may refuse it by throwing. */
  protected def entering(handle: Int, element: T): Unit

  /** Grows with every change of the content, so that something derived from it can be seen to be stale. */
  final protected def changeCount: Int = changes

  final override def peek(): T = if (topHandle == NoHandle) null else elementAt(topHandle)

  final override def poll(): T = {
    val handle = topHandle
    if (handle == NoHandle) null
    else {
      val element = elementAt(handle)
      takeOut(slotOf(handle, spread(element.hashCode)), handle)
      element
    }
  }

  final override def add(element: T): Boolean = {
    val handle = enter(element)
    handle != NoHandle && place(handle, element.priority)
  }

  final override def remove(element: T): Boolean = {
    val slot = find(element, spread(element.hashCode))
    table(slot) != 0 && takeOut(slot, handleIn(table(slot)))
  }

  final override def isEmpty: Boolean = entryCount == 0

  final override def size: Int = entryCount

  final def contains(element: T): Boolean = table(find(element, spread(element.hashCode))) != 0

  final override def addAll(more: Iterable[T]): Unit =
    if (more != null && more.nonEmpty) {
      if (more.size < entryCount / BulkFraction) more.foreach { element =>
        add(element)
      }
      else
        try
          more.foreach { element =>
            val handle = enter(element)
            if (handle != NoHandle) append(handle, element.priority)
          }
        finally heapify()
    }

  /** Removes all elements. */
  final def clear(): Unit = {
    changes += 1
    clearHeap()
    val size = tableSizeFor(handleCapacity)
    if (table.length == size) Arrays.fill(table, 0L) else table = new Array[Long](size)
    Arrays.fill(elements, null)
  }

  /** Not fail-fast: elements that stay during the iteration are seen exactly once, whatever else changes. */
  final override def iterator: CloseableIterator[T] = new CloseableIterator[T] {
    private var handle = nextLive(0)

    override def hasNext: Boolean = {
      handle = nextLive(handle)
      handle < handleLimit
    }

    override def next(): T = {
      if (!hasNext) throw new NoSuchElementException("The queue has no further element")
      handle += 1
      elementAt(handle - 1)
    }
  }

  final override protected def compareTies(handle: Int, other: Int): Int =
    tieBreak.compare(elementAt(handle), elementAt(other))

  override protected def handlesGrew(capacity: Int): Unit = elements = Arrays.copyOf(elements, capacity)

  final protected def elementAt(handle: Int): T = elements(handle).asInstanceOf[T]

  private def nextLive(from: Int): Int = {
    var handle = from
    while (handle < handleLimit && !isLive(handle)) handle += 1
    handle
  }

  /** The handle of an element that is new in the set, not in the order yet; `NoHandle` for a duplicate. */
  private def enter(element: T): Int = {
    val hash = spread(element.hashCode)
    val slot = find(element, hash)
    if (table(slot) != 0) NoHandle
    else {
      val handle = allocate()
      try entering(handle, element)
      catch {
        case refused: Throwable =>
          discard(handle)
          throw refused
      }
      elements(handle) = element
      insert(slot, hash, handle)
      handle
    }
  }

  private def insert(slot: Int, hash: Int, handle: Int): Unit = {
    changes += 1
    table(slot) = entryOf(hash, handle)
    if (entryCount >= table.length / 2) rehash()
  }

  private def takeOut(slot: Int, handle: Int): Boolean = {
    changes += 1
    closeGap(slot)
    elements(handle) = null
    val wasTop = removeHandle(handle)
    if (entryCount == 0 && handleCapacity > ReleaseAbove) clear()
    wasTop
  }

  /** The slot that holds an element equal to `element`, or the empty one where it belongs. */
  private def find(element: T, hash: Int): Int = {
    val slots = table
    val mask = slots.length - 1
    var slot = hash & mask
    var entry = slots(slot)
    while (entry != 0 && !(hashIn(entry) == hash && elements(handleIn(entry)).equals(element))) {
      slot = (slot + 1) & mask
      entry = slots(slot)
    }
    slot
  }

  private def slotOf(handle: Int, hash: Int): Int = {
    val slots = table
    val mask = slots.length - 1
    val entry = entryOf(hash, handle)
    var slot = hash & mask
    while (slots(slot) != entry) {
      if (slots(slot) == 0) throw new IllegalStateException(changedInside(handle))
      slot = (slot + 1) & mask
    }
    slot
  }

  private def changedInside(handle: Int): String =
    s"The hash of ${elements(handle)} changed while it was in the queue: elements must not change inside"

  private def closeGap(from: Int): Unit = {
    val slots = table
    val mask = slots.length - 1
    var gap = from
    var slot = (gap + 1) & mask
    while (slots(slot) != 0) {
      val home = hashIn(slots(slot)) & mask
      if (((slot - home) & mask) >= ((slot - gap) & mask)) {
        slots(gap) = slots(slot)
        gap = slot
      }
      slot = (slot + 1) & mask
    }
    slots(gap) = 0
  }

  private def rehash(): Unit = {
    val old = table
    table = new Array[Long](old.length * 2)
    val mask = table.length - 1
    var index = 0
    while (index < old.length) {
      if (old(index) != 0) {
        var slot = hashIn(old(index)) & mask
        while (table(slot) != 0) slot = (slot + 1) & mask
        table(slot) = old(index)
      }
      index += 1
    }
  }
}

private[queue] object HeapElementSet {

  /** A bulk load smaller than this fraction of the queue is added one by one, since the other way costs O(queue). */
  private final val BulkFraction = 8

  /** A queue that was drained gives its arrays back if they hold more than this many elements. */
  private final val ReleaseAbove = 1 << 16

  private def entryOf(hash: Int, handle: Int): Long = (hash.toLong << 32) | (handle + 1)

  private def hashIn(entry: Long): Int = (entry >>> 32).toInt

  private def handleIn(entry: Long): Int = entry.toInt - 1

  /** Fibonacci hashing: linear probing needs the low bits to depend on all of them. */
  private def spread(hash: Int): Int = {
    val mixed = hash * 0x9e3779b9
    mixed ^ (mixed >>> 15)
  }

  private def tableSizeFor(capacity: Int): Int = Integer.highestOneBit(math.max(capacity, 8) - 1) << 2
}
