package io.pillarbox.timer

import scala.util.Using

import io.pillarbox.queue.{CloseableIterator, InternalPriorityQueue, KeyGroupedInternalPriorityQueue}
import io.pillarbox.state.Namespace

/**
 * The timers of one kind: their queue, and beside it the parts that are kept on demand (changes since the
 * last commit, an index by key).
 */
private[timer] final class TimerStore[K](
    val timerType: TimerType[K],
    queues: TimerQueues,
    trackChanges: Boolean
) {
  private val queue: InternalPriorityQueue[Timer[K]] = queues.newQueue(timerType)
  private var byKey: TimersByKey[K] = _

  /** The changes since [[forgetChanges]]; null if they are not tracked. */
  val changes: TimerChanges[K] = if (trackChanges) queues.newChanges(timerType) else null

  def size: Int = queue.size

  def estimatedSize(): Long = queue.estimatedSize()

  def peek(): Timer[K] = queue.peek()

  /** The time of the first timer; `Long.MaxValue` if there is none. */
  def nextTimestamp: Long = {
    val head = queue.peek()
    if (head == null) Long.MaxValue else head.timestamp
  }

  /** Removes and returns the first timer, which is not null, as one that fires. */
  def poll(): Timer[K] = {
    val timer = queue.poll()
    noted(timer, isAdded = false)
    timer
  }

  /** Adds a timer of a copy of the key; true if it is the first now, or may be. */
  def add(key: K, namespace: Namespace, timestamp: Long): Boolean =
    add(timerType.newTimer(timerType.keySerializer.copy(key), namespace, timestamp))

  def add(timer: Timer[K]): Boolean = {
    noted(timer, isAdded = true)
    queue.add(timer)
  }

  def addAll(timers: Iterable[Timer[K]]): Unit = {
    byKey = null
    queue.addAll(timers)
  }

  def remove(key: K, namespace: Namespace, timestamp: Long): Unit =
    remove(timerType.newTimer(key, namespace, timestamp))

  def remove(timer: Timer[K]): Unit = {
    noted(timer, isAdded = false)
    queue.remove(timer)
  }

  /** The timers of a key in their order; copies, so that no caller can change a key that is in the queue. */
  def ofKey(key: K): Seq[Timer[K]] = {
    val probe = timerType.newTimer(key, Namespace.Void, 0L)
    val found = queue match {
      case grouped: KeyGroupedInternalPriorityQueue[Timer[K]] =>
        grouped.subsetForKeyGroup(probe.keyGroup).filter(_.isOfKey(probe.keyHash, key))
      case _ => index.of(probe)
    }
    found.sorted(inOrder).map(_.copied)
  }

  def iterator: CloseableIterator[Timer[K]] = queue.iterator

  def flush(): Unit = queue.flush()

  def forgetChanges(): Unit = if (changes != null) changes.clear()

  def close(): Unit = if (changes != null) changes.close()

  private val inOrder: Ordering[Timer[K]] =
    Ordering.by[Timer[K], Long](_.timestamp).orElse(Ordering.comparatorToOrdering(new TimerOrder(timerType)))

  private def index: TimersByKey[K] = {
    if (byKey == null) byKey = Using.resource(queue.iterator)(new TimersByKey(_))
    byKey
  }

  private def noted(timer: Timer[K], isAdded: Boolean): Unit = {
    if (changes != null) changes.add(timer, isAdded)
    if (byKey != null) { if (isAdded) byKey.add(timer) else byKey.remove(timer) }
  }
}
