package io.pillarbox.queue

import java.util.{Arrays, Comparator}

import scala.annotation.unused

import IndexedHeap.NoHandle

/**
 * The common part of the two heap queue sets: a heap with set semantics by `equals`, in arrays. A `HashSet`
 * beside the heap would take an object an element, and doesn't lead from an equal element to the handle.
 *
 * Beside the heap stands an open-addressing table with linear probing, at most half full. A slot is one
 * `Int`, 0 if empty: the handle + 1 takes as many low bits as a slot's number has, and the bits above are
 * those of the hash that did not choose the slot. So a probe that misses reads one cache line and calls no
 * `equals`. The whole hash is kept by handle: the table grows, closes its gaps and lets the first element go
 * without looking at an element. Removal moves later entries of a run back instead of leaving tombstones
 * (Knuth, TAOCP vol. 3, 6.4, algorithm R).
 */
private[pillarbox] class HeapElementSet[T >: Null <: Prioritized](
    tieBreak: Comparator[_ >: T] = null,
    initialCapacity: Int = 16
) extends IndexedHeap(initialCapacity, tieBreak != null)
    with InternalPriorityQueue[T] {
  import HeapElementSet._

  private var elements = new Array[AnyRef](handleCapacity)
  private var hashes = new Array[Int](handleCapacity)
  private var table = new Array[Int](tableSizeFor(handleCapacity))

  /** Called once for every element that is about to enter; may refuse it by throwing. */
  protected def entering(@unused element: T): Unit = ()

  override final def peek(): T = if (topHandle == NoHandle) null else elementAt(topHandle)

  override final def poll(): T = {
    val handle = topHandle
    if (handle == NoHandle) null
    else {
      val element = elementAt(handle)
      takeOut(slotOf(handle), handle)
      element
    }
  }

  override final def add(element: T): Boolean = {
    val handle = enter(element)
    handle != NoHandle && place(handle, element.priority)
  }

  override final def remove(element: T): Boolean = {
    val slot = find(element, spread(element.hashCode))
    table(slot) != 0 && takeOut(slot, handleAt(slot))
  }

  override final def isEmpty: Boolean = entryCount == 0

  override final def size: Int = entryCount

  final def contains(element: T): Boolean = table(find(element, spread(element.hashCode))) != 0

  override final def addAll(more: Iterable[T]): Unit =
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

  final def clear(): Unit = {
    clearHeap()
    val size = tableSizeFor(handleCapacity)
    if (table.length == size) Arrays.fill(table, 0) else table = new Array[Int](size)
    Arrays.fill(elements, null)
  }

  /** Not fail-fast: elements that stay during the iteration are seen exactly once, whatever else changes. */
  override final def iterator: CloseableIterator[T] = new CloseableIterator[T] {
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

  override protected final def compareTies(handle: Int, other: Int): Int =
    tieBreak.compare(elementAt(handle), elementAt(other))

  override protected final def handlesGrew(capacity: Int): Unit = {
    elements = Arrays.copyOf(elements, capacity)
    hashes = Arrays.copyOf(hashes, capacity)
    if (table.length < tableSizeFor(capacity)) rehash(tableSizeFor(capacity))
  }

  protected final def elementAt(handle: Int): T = elements(handle).asInstanceOf[T]

  private def nextLive(from: Int): Int = {
    var handle = from
    while (handle < handleLimit && !isLive(handle)) handle += 1
    handle
  }

  /** Returns the handle of a new element, which is not in the order yet; `NoHandle` for a duplicate. */
  private def enter(element: T): Int = {
    val hash = spread(element.hashCode)
    val slot = find(element, hash)
    if (table(slot) != 0) NoHandle
    else {
      entering(element)
      val asked = table
      val handle = allocate()
      elements(handle) = element
      hashes(handle) = hash
      table(if (table eq asked) slot else emptySlot(hash)) = entryOf(hash, handle)
      handle
    }
  }

  private def takeOut(slot: Int, handle: Int): Boolean = {
    closeGap(slot)
    elements(handle) = null
    val wasTop = removeHandle(handle)
    if (entryCount == 0 && handleCapacity > ReleaseAbove) clear()
    wasTop
  }

  /** Returns the slot that holds an element equal to `element`, or the empty one where it belongs. */
  private def find(element: T, hash: Int): Int = {
    val slots = table
    val mask = slots.length - 1
    var slot = hash & mask
    var entry = slots(slot)
    while (entry != 0 && !(((entry ^ hash) & ~mask) == 0 && elements((entry & mask) - 1).equals(element))) {
      slot = (slot + 1) & mask
      entry = slots(slot)
    }
    slot
  }

  private def slotOf(handle: Int): Int = {
    val slots = table
    val mask = slots.length - 1
    val hash = hashes(handle)
    val entry = entryOf(hash, handle)
    var slot = hash & mask
    while (slots(slot) != entry) slot = (slot + 1) & mask
    slot
  }

  private def emptySlot(hash: Int): Int = {
    val slots = table
    val mask = slots.length - 1
    var slot = hash & mask
    while (slots(slot) != 0) slot = (slot + 1) & mask
    slot
  }

  private def closeGap(from: Int): Unit = {
    val slots = table
    val mask = slots.length - 1
    var gap = from
    var slot = (gap + 1) & mask
    while (slots(slot) != 0) {
      val home = hashes((slots(slot) & mask) - 1) & mask
      if (((slot - home) & mask) >= ((slot - gap) & mask)) {
        slots(gap) = slots(slot)
        gap = slot
      }
      slot = (slot + 1) & mask
    }
    slots(gap) = 0
  }

  private def handleAt(slot: Int): Int = (table(slot) & (table.length - 1)) - 1

  private def entryOf(hash: Int, handle: Int): Int = (hash & -table.length) | (handle + 1)

  /** Called when all handles are in use. */
  private def rehash(size: Int): Unit = {
    table = new Array[Int](size)
    var handle = 0
    while (handle < handleLimit) {
      table(emptySlot(hashes(handle))) = entryOf(hashes(handle), handle)
      handle += 1
    }
  }
}

private[queue] object HeapElementSet {

  /**
   * A bulk load smaller than this fraction of the queue is added one by one, since the other way costs
   * O(queue).
   */
  private final val BulkFraction = 8

  /** A queue that was drained gives its arrays back if they hold more than this many elements. */
  private final val ReleaseAbove = 1 << 16

  /** Fibonacci hashing: linear probing needs the low bits to depend on all of them. */
  private def spread(hash: Int): Int = {
    val mixed = hash * 0x9e3779b9
    mixed ^ (mixed >>> 15)
  }

  /** Returns a power of two, at least twice the number of handles. */
  private def tableSizeFor(capacity: Int): Int = Integer.highestOneBit(math.max(capacity, 8) - 1) << 2
}
