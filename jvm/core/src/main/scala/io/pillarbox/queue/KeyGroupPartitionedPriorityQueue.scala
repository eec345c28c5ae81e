package io.pillarbox.queue

import java.util.Comparator

import io.pillarbox.state.KeyGroupRange

/**
 * Joins one queue a key group to one queue: a heap of queues, ordered by their heads.
 *
 * The global order is the elements' order. Equal priorities at the heads of two key groups leave in the order
 * of the key groups. Every call that may change the head of a sub-queue moves that sub-queue.
 *
 * @param subQueueFor makes the queue of a key group; it may hold elements already
 */
private[pillarbox] final class KeyGroupPartitionedPriorityQueue[T >: Null <: Prioritized](
    keyGroupRange: KeyGroupRange,
    keyGroupExtractor: KeyGroupExtractor[T],
    subQueueFor: Int => InternalPriorityQueue[T]
) extends KeyGroupedInternalPriorityQueue[T] {
  import KeyGroupPartitionedPriorityQueue._

  private val subQueues =
    Array.tabulate(keyGroupRange.size)(i => new SubQueue[T](i, subQueueFor(keyGroupRange.start + i)))
  private val order = new HeapPriorityQueue[SubQueue[T]](HeadOrder, keyGroupRange.size)
  order.addAll(subQueues)

  override def peek(): T = order.peek().elements.peek()

  override def poll(): T = {
    val first = order.peek()
    val element = first.elements.poll()
    if (element != null) moved(first)
    element
  }

  override def add(element: T): Boolean = {
    val target = subQueueOf(element)
    target.elements.add(element) && {
      moved(target)
      order.peek() eq target
    }
  }

  override def remove(element: T): Boolean = {
    val target = subQueueOf(element)
    val held = order.peek() eq target
    target.elements.remove(element) && {
      moved(target)
      held
    }
  }

  override def isEmpty: Boolean = order.peek().elements.isEmpty

  override def size: Int = subQueues.foldLeft(0)((sum, queue) => sum + queue.elements.size)

  override def addAll(more: Iterable[T]): Unit = if (more != null) {
    val byQueue = more.groupBy(subQueueOf)
    byQueue.foreach { case (target, elements) =>
      target.elements.addAll(elements)
      moved(target)
    }
  }

  /** Opens one sub-queue's iterator at a time, and closes it before the next. */
  override def iterator: CloseableIterator[T] = new CloseableIterator[T] {
    private var nextQueue = 0
    private var current: CloseableIterator[T] = CloseableIterator.of(Iterator.empty)

    override def hasNext: Boolean = {
      while (!current.hasNext && nextQueue < subQueues.length) {
        current.close()
        current = subQueues(nextQueue).elements.iterator
        nextQueue += 1
      }
      current.hasNext
    }

    override def next(): T = if (hasNext) current.next() else Iterator.empty.next()

    override def close(): Unit = {
      nextQueue = subQueues.length
      current.close()
      current = CloseableIterator.of(Iterator.empty)
    }
  }

  override def flush(): Unit = subQueues.foreach(_.elements.flush())

  override def subsetForKeyGroup(keyGroup: Int): IndexedSeq[T] = {
    KeyGroupCheck.check(keyGroup, keyGroupRange, "asked for")
    val elements = subQueues(keyGroup - keyGroupRange.start).elements.iterator
    try elements.toIndexedSeq
    finally elements.close()
  }

  private def subQueueOf(element: T): SubQueue[T] = {
    val keyGroup = keyGroupExtractor.keyGroupOf(element)
    if (!keyGroupRange.contains(keyGroup)) KeyGroupCheck.refuse(keyGroup, keyGroupRange, element)
    subQueues(keyGroup - keyGroupRange.start)
  }

  private def moved(queue: SubQueue[T]): Unit = {
    queue.refresh()
    order.adjustModifiedElement(queue)
  }
}

private object KeyGroupPartitionedPriorityQueue {

  /** A key group's queue with the priority of its head, as it was when it was last looked at. */
  private final class SubQueue[T >: Null <: Prioritized](
      val index: Int,
      val elements: InternalPriorityQueue[T]
  ) extends HeapPriorityQueueElement {
    private var headPriority = Long.MaxValue
    var hasHead = false
    refresh()

    override def priority: Long = headPriority

    def refresh(): Unit = {
      val head = elements.peek()
      hasHead = head != null
      headPriority = if (hasHead) head.priority else Long.MaxValue
    }
  }

  /** Orders equal heads: a queue with a head of greatest priority before an empty one; then by key group. */
  private object HeadOrder extends Comparator[SubQueue[_]] {
    override def compare(one: SubQueue[_], other: SubQueue[_]): Int =
      if (one.hasHead != other.hasHead) { if (one.hasHead) -1 else 1 }
      else Integer.compare(one.index, other.index)
  }
}
