package io.pillarbox.queue

import java.util.Arrays

/**
 * A 4-ary min-heap of `(priority, handle)` in two primitive arrays, with removal of any handle in O(log n).
 *
 * The JDK's `PriorityQueue` keeps objects, and looks through all of them for one that is to be removed.
 *
 * A handle is a small number that stays the same from `insert` to `removeHandle`, and is then given out
 * again; subclasses keep what belongs to an entry in arrays indexed by it. Moving an entry writes two
 * primitives and its position: no element is touched, and no reference store reaches the garbage collector.
 *
 * Children of index `i` are `4i-2 .. 4i+1`, so that with Java's 16-byte array header four siblings share one
 * 32-byte block. Four children a node halve the depth (Johnson, "Priority queues with update and finding
 * minimum spanning trees", 1975). Removal of the top moves the hole to a leaf first and lifts the last entry
 * from there (Wegener, "Bottom-up heapsort", 1993): it comes from the bottom and almost always stays near it.
 */
private[queue] abstract class IndexedHeap(initialCapacity: Int, hasTieBreak: Boolean) {
  import IndexedHeap._

  private val firstCapacity = math.max(initialCapacity, MinCapacity)
  private var priorities = new Array[Long](firstCapacity + 1)
  private var handles = new Array[Int](firstCapacity + 1)
  private var positions = new Array[Int](firstCapacity)
  private var count = 0
  private var handleEnd = 0
  private var freeHandle = NoHandle

  /** Orders two entries of equal priority; only called if the heap was made with a tie-break. */
  protected def compareTies(handle: Int, other: Int): Int

  /** Called when handles up to `capacity` may be given out. */
  protected def handlesGrew(capacity: Int): Unit

  protected final def entryCount: Int = count

  /** The bound below which all handles, in use or free, are. */
  protected final def handleLimit: Int = handleEnd

  protected final def handleCapacity: Int = positions.length

  protected final def isLive(handle: Int): Boolean = positions(handle) > 0

  protected final def topHandle: Int = if (count == 0) NoHandle else handles(1)

  /** A handle for a new entry that is not in the order yet: `place` or `heapify` must follow. */
  protected final def allocate(): Int = {
    val free = freeHandle
    if (free != NoHandle) {
      freeHandle = -positions(free) - FreeOffset
      free
    } else {
      if (handleEnd == positions.length) grow()
      handleEnd += 1
      handleEnd - 1
    }
  }

  /** Gives back an allocated handle that was not put into the order. */
  protected final def discard(handle: Int): Unit = {
    positions(handle) = -(freeHandle + FreeOffset)
    freeHandle = handle
  }

  /** Puts an allocated handle into the order. True if it became the top. */
  protected final def place(handle: Int, priority: Long): Boolean = {
    count += 1
    siftUp(count, priority, handle) == 1
  }

  /** Appends an allocated handle without ordering it: `heapify` must follow before anything else. */
  protected final def append(handle: Int, priority: Long): Unit = {
    count += 1
    set(count, priority, handle)
  }

  /** Builds the order over all entries in O(n) (Floyd, "Algorithm 245: Treesort", 1964). */
  protected final def heapify(): Unit = {
    var index = (count + 2) >> 2
    while (index >= 1) {
      siftDown(index, priorities(index), handles(index))
      index -= 1
    }
  }

  /** Takes the entry out of the order and frees its handle. True if it was the top. */
  protected final def removeHandle(handle: Int): Boolean = {
    val index = positions(handle)
    val lastPriority = priorities(count)
    val lastHandle = handles(count)
    count -= 1
    discard(handle)
    if (index <= count) {
      siftUp(sinkHole(index), lastPriority, lastHandle)
    }
    index == 1
  }

  /** Moves an entry to where its new priority belongs. */
  protected final def adjust(handle: Int, priority: Long): Unit = {
    val index = positions(handle)
    if (siftUp(index, priority, handle) == index) siftDown(index, priority, handle)
  }

  /** Forgets all entries, and gives memory back if it grew far beyond the initial capacity. */
  protected def clearHeap(): Unit = {
    if (positions.length > math.max(firstCapacity, RetainedCapacity)) {
      priorities = new Array[Long](firstCapacity + 1)
      handles = new Array[Int](firstCapacity + 1)
      positions = new Array[Int](firstCapacity)
      handlesGrew(firstCapacity)
    } else {
      Arrays.fill(positions, 0, handleEnd, 0)
    }
    count = 0
    handleEnd = 0
    freeHandle = NoHandle
  }

  private def set(index: Int, priority: Long, handle: Int): Unit = {
    priorities(index) = priority
    handles(index) = handle
    positions(handle) = index
  }

  private def siftUp(from: Int, priority: Long, handle: Int): Int = {
    var index = from
    var parent = (index + 2) >> 2
    while (index > 1 && precedes(priority, handle, priorities(parent), handles(parent))) {
      set(index, priorities(parent), handles(parent))
      index = parent
      parent = (index + 2) >> 2
    }
    set(index, priority, handle)
    index
  }

  private def siftDown(from: Int, priority: Long, handle: Int): Unit = {
    var index = from
    var child = smallestChild(index)
    while (child != 0 && precedes(priorities(child), handles(child), priority, handle)) {
      set(index, priorities(child), handles(child))
      index = child
      child = smallestChild(index)
    }
    set(index, priority, handle)
  }

  private def precedes(priority: Long, handle: Int, otherPriority: Long, other: Int): Boolean =
    priority < otherPriority || (hasTieBreak && priority == otherPriority && compareTies(handle, other) < 0)

  /** Moves the smaller children up into the hole at `from`; the index of the leaf where the hole ends. */
  private def sinkHole(from: Int): Int = {
    var index = sinkThroughFull(from)
    var child = smallestChild(index)
    while (child != 0) {
      set(index, priorities(child), handles(child))
      index = sinkThroughFull(child)
      child = smallestChild(index)
    }
    index
  }

  /**
   * [[sinkHole]], down to the first node that has fewer than four children or that ties decide.
   *
   * Nothing is called in the loop, and no branch depends on which child is smallest: that can't be predicted,
   * and a wrong guess a level costs more than all the rest. The JIT makes conditional moves of choices
   * between two constants, and branches of `math.min` and of choices between two variables.
   */
  private def sinkThroughFull(from: Int): Int = {
    val p = priorities
    val h = handles
    val places = positions
    val last = count
    var index = from
    var first = (from << 2) - 2
    while (first > 0 && first + 3 <= last) {
      val left = first + (if (p(first + 1) < p(first)) 1 else 0)
      val right = first + (if (p(first + 3) < p(first + 2)) 3 else 2)
      val l = p(left)
      val r = p(right)
      if (hasTieBreak && (p(first) == p(first + 1) || p(first + 2) == p(first + 3) || l == r)) first = 0
      else {
        val best = left + ((right - left) & (if (r < l) -1 else 0))
        val handle = h(best)
        p(index) = p(best)
        h(index) = handle
        places(handle) = index
        index = best
        first = (best << 2) - 2
      }
    }
    index
  }

  /** The index of the smallest child, 0 if `index` is a leaf. */
  private def smallestChild(index: Int): Int = {
    val first = (index << 2) - 2
    if (first > count || first <= 0) 0 else smallestOf(first, math.min(first + 3, count))
  }

  private def smallestOf(first: Int, last: Int): Int = {
    var best = first
    var other = first + 1
    while (other <= last) {
      if (precedes(priorities(other), handles(other), priorities(best), handles(best))) best = other
      other += 1
    }
    best
  }

  private def grow(): Unit = {
    val capacity = positions.length
    if (capacity >= MaxCapacity) {
      throw new IllegalStateException(
        s"A heap queue holds at most $MaxCapacity elements: use more partitions, or a queue over RocksDB"
      )
    }
    val larger = math.min(MaxCapacity.toLong, capacity.toLong * 2).toInt
    priorities = Arrays.copyOf(priorities, larger + 1)
    handles = Arrays.copyOf(handles, larger + 1)
    positions = Arrays.copyOf(positions, larger)
    handlesGrew(larger)
  }
}

private[queue] object IndexedHeap {
  final val NoHandle = -1

  /** The free handles form a list in the positions: the next one, negated and moved off -1, 0 and up. */
  private final val FreeOffset = 2
  private final val MinCapacity = 8
  private final val RetainedCapacity = 1 << 16
  private final val MaxCapacity = 1 << 28
}
