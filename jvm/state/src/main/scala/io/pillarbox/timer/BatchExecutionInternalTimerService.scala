package io.pillarbox.timer

import io.pillarbox.api.TimeDomain
import io.pillarbox.queue.HeapElementSet
import io.pillarbox.state.{KeyedStateBackend, Namespace}

/**
 * Timers of a batch whose input is sorted by key: only those of one key at a time, between [[startKey]] and
 * [[dropKey]]. A timer that is registered before, for any current key, waits for its key to start. Mailbox
 * thread only.
 */
private[pillarbox] final class BatchExecutionInternalTimerService[K](
    backend: KeyedStateBackend[K]
) extends PolledTimerService[K] {

  private val eventTime = new Timers(TimeDomain.EVENT_TIME)
  private val processingTime = new Timers(TimeDomain.PROCESSING_TIME)
  private var key: K = _
  private var hasKey = false
  private var isEnding = false

  override def register(kind: TimeDomain, namespace: Namespace, time: Long): Unit =
    of(kind).add(namespace, time)

  override def delete(kind: TimeDomain, namespace: Namespace, time: Long): Unit =
    of(kind).remove(namespace, time)

  override def timersOfCurrentKey(kind: TimeDomain): Seq[Timer[K]] = of(kind).all

  override protected def peek(kind: TimeDomain): Timer[K] = of(kind).queue.peek()

  override protected def poll(kind: TimeDomain): Timer[K] = of(kind).queue.poll()

  /**
   * Makes `key`, which must not change, the key of all timers from now on, with those that were registered
   * for it before.
   */
  def startKey(key: K): Unit = {
    this.key = key
    hasKey = true
    eventTime.start(key)
    processingTime.start(key)
  }

  /** Drops all timers that are registered from now on. */
  def endKey(): Unit = isEnding = true

  def dropKey(): Unit = {
    hasKey = false
    isEnding = false
    eventTime.queue.clear()
    processingTime.queue.clear()
  }

  /** True if timers wait for a key that has not started. */
  def hasKeysToCome: Boolean = !eventTime.early.isEmpty || !processingTime.early.isEmpty

  def nextKeyToCome: K = (if (eventTime.early.isEmpty) processingTime.early else eventTime.early).anyKey

  private def of(kind: TimeDomain): Timers = kind match {
    case TimeDomain.EVENT_TIME => eventTime
    case TimeDomain.PROCESSING_TIME => processingTime
  }

  private final class Timers(kind: TimeDomain) {
    private val timerType = new TimerType(kind, backend.keySerializer)
    private val order = new TimerOrder(timerType)
    private val inOrder =
      Ordering.by[Timer[K], Long](_.timestamp).orElse(Ordering.comparatorToOrdering(order))
    val queue = new HeapElementSet[Timer[K]](order)

    /** The timers of keys that have not started. */
    val early = new TimersByKey[K](Iterator.empty)

    def add(namespace: Namespace, time: Long): Unit =
      if (!hasKey)
        early.add(timerType.newTimer(backend.keySerializer.copy(backend.currentKey), namespace, time))
      else if (!isEnding) queue.add(timerType.newTimer(key, namespace, time))

    def remove(namespace: Namespace, time: Long): Unit =
      if (hasKey) queue.remove(timerType.newTimer(key, namespace, time))
      else early.remove(timerType.newTimer(backend.currentKey, namespace, time))

    def start(key: K): Unit = if (!early.isEmpty) {
      val own = early.of(timerType.newTimer(key, Namespace.Void, 0L))
      own.foreach(early.remove)
      own.foreach(queue.add)
    }

    def all: Seq[Timer[K]] = queue.iterator.toVector.sorted(inOrder).map(_.copied)
  }
}
