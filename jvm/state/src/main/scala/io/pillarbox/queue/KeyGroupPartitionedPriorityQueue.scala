package io.pillarbox.queue

import java.util.function.{LongSupplier, ToIntFunction}

import scala.util.Using

/**
 * Joins one queue a key group to one queue: a heap of queues, ordered by their heads.
 *
 * The global order is the elements' order. Equal priorities at the heads of two key groups leave in the order
 * of the key groups. Every call that may change the head of a sub-queue moves that sub-queue.
 *
 * @param subQueueFor makes the queue of a key group; it may hold elements already
 * @param nanoTime the clock by which queues are counted now and then, see [[estimatedSize]]
 */
private[pillarbox] final class KeyGroupPartitionedPriorityQueue[T >: Null <: Prioritized](
    keyGroupRange: KeyGroupRange,
    keyGroupOf: ToIntFunction[T],
    subQueueFor: Int => InternalPriorityQueue[T],
    nanoTime: LongSupplier = () => System.nanoTime
) extends KeyGroupedInternalPriorityQueue[T] {
  import KeyGroupPartitionedPriorityQueue._

  private val subQueues =
    Array.tabulate(keyGroupRange.size)(i => new SubQueue[T](i, subQueueFor(keyGroupRange.start + i)))
  private val order = new HeadOrder[T](subQueues)
  private val sample = new SizeSample(nanoTime)

  override def peek(): T = order.first.elements.peek()

  override def poll(): T = {
    val first = order.first
    val element = first.elements.poll()
    if (element != null) order.refresh(first)
    element
  }

  override def add(element: T): Boolean = {
    val target = subQueueOf(element)
    target.elements.add(element) && {
      order.refresh(target)
      order.first eq target
    }
  }

  override def remove(element: T): Boolean = {
    val target = subQueueOf(element)
    val held = order.first eq target
    target.elements.remove(element) && {
      order.refresh(target)
      held
    }
  }

  override def isEmpty: Boolean = order.first.elements.isEmpty

  override def size: Int = subQueues.foldLeft(0)((sum, queue) => sum + queue.elements.size)

  /**
   * Supposes of key groups that would have to be counted that all are as large as some of them, and of one
   * with more than 10,000 elements that it has so many: for such queues it is too low.
   */
  override def estimatedSize(): Long = {
    val (inMemory, others) = subQueues.toIndexedSeq.map(_.elements).partition(_.knownSize >= 0)
    val known = inMemory.map(_.knownSize.toLong).sum
    if (others.isEmpty) known else known + (sample.meanOf(others) * others.size).round
  }

  override def addAll(more: Iterable[T]): Unit = if (more != null) {
    val byQueue = more.groupBy(subQueueOf)
    byQueue.foreach { case (target, elements) =>
      target.elements.addAll(elements)
      order.refresh(target)
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
    keyGroupRange.check(keyGroup, "asked for")
    Using.resource(subQueues(keyGroup - keyGroupRange.start).elements.iterator)(_.toIndexedSeq)
  }

  private def subQueueOf(element: T): SubQueue[T] = {
    val keyGroup = keyGroupOf.applyAsInt(element)
    keyGroupRange.check(keyGroup, element)
    subQueues(keyGroup - keyGroupRange.start)
  }
}

private object KeyGroupPartitionedPriorityQueue {

  /** A key group's queue with the priority of its head, as it was when it was last looked at. */
  private final class SubQueue[T >: Null <: Prioritized](
      val index: Int,
      val elements: InternalPriorityQueue[T]
  ) {
    var headPriority = Long.MaxValue
    var hasHead = false
    refresh()

    def refresh(): Unit = {
      val head = elements.peek()
      hasHead = head != null
      headPriority = if (hasHead) head.priority else Long.MaxValue
    }
  }

  /**
   * The mean size of queues, of which a few are counted now and then, other ones each time. Counting takes
   * less than a hundredth of the time.
   */
  private final class SizeSample(nanoTime: LongSupplier) {
    private var mean = 0.0
    private var isDue = true
    private var dueNanos = 0L
    private var next = 0

    def meanOf(queues: IndexedSeq[InternalPriorityQueue[_]]): Double = {
      val start = nanoTime.getAsLong
      if (isDue || start - dueNanos >= 0) {
        isDue = false
        count(queues)
        val end = nanoTime.getAsLong
        dueNanos = end + math.max(SamplePeriodNanos, 100 * (end - start))
      }
      mean
    }

    private def count(queues: IndexedSeq[InternalPriorityQueue[_]]): Unit = {
      var counted = 0
      var elements = 0L
      while (counted < queues.size && elements < SampleSize) {
        elements += queues((next + counted) % queues.size).sizeUpTo(MostCounted)
        counted += 1
      }
      next = (next + counted) % queues.size
      mean = elements.toDouble / counted
    }
  }

  /** The elements of a sample, at least: so many that chance moves their mean by a few percent. */
  private final val SampleSize = 1000

  /** The elements of one key group that are counted, which takes some milliseconds. */
  private final val MostCounted = 10000
  private final val SamplePeriodNanos = 10L * 1000 * 1000 * 1000

  /** The heap of the sub-queues; the handle of each is its index. */
  private final class HeadOrder[T >: Null <: Prioritized](queues: Array[SubQueue[T]])
      extends IndexedHeap(queues.length, hasTieBreak = true) {
    queues.foreach(queue => append(allocate(), queue.headPriority))
    heapify()

    /** The queue with the first element, or an empty one if all are. */
    def first: SubQueue[T] = queues(topHandle)

    /** Moves a queue whose head may have changed to its new place. */
    def refresh(queue: SubQueue[T]): Unit = {
      queue.refresh()
      adjust(queue.index, queue.headPriority)
    }

    /** Puts a queue with a head of the greatest priority before an empty one; then it goes by key group. */
    override protected def compareTies(handle: Int, other: Int): Int =
      if (queues(handle).hasHead != queues(other).hasHead) { if (queues(handle).hasHead) -1 else 1 }
      else Integer.compare(handle, other)

    override protected def handlesGrew(capacity: Int): Unit = ()
  }
}
