package io.pillarbox.timer

import io.pillarbox.queue.BatchExecutionInternalPriorityQueueSet
import io.pillarbox.state.Namespace
import io.pillarbox.state.serialization.TypeSerializer

/**
 * Timers of a batch whose input is sorted by key: only those of one key at a time. Mailbox thread only.
 *
 * [[finishKey]] fires all event-time timers of the key in time order, then its processing-time timers, as if the
 * watermark had come to its end. Timers registered meanwhile are dropped, for a key that keeps registering would never
 * end; `currentWatermark` is `Long.MaxValue` then and `Long.MinValue` else.
 *
 * @param processingTime
 *   tells the time, in milliseconds since 1970
 */
final class BatchExecutionInternalTimerService[K](
    keySerializer: TypeSerializer[K],
    keyContext: KeyContext[K],
    target: Triggerable[K],
    processingTime: () => Long
) extends InternalTimerService[K] {

  private val eventTime = new Timers(TimerKind.EventTime)
  private val processingTimers = new Timers(TimerKind.ProcessingTime)
  private var finishing = false

  override def currentProcessingTime: Long = processingTime()

  override def currentWatermark: Long = if (finishing) Long.MaxValue else Long.MinValue

  override def registerEventTimeTimer(namespace: Namespace, time: Long): Unit = eventTime.add(namespace, time)

  override def registerProcessingTimeTimer(namespace: Namespace, time: Long): Unit =
    processingTimers.add(namespace, time)

  override def deleteEventTimeTimer(namespace: Namespace, time: Long): Unit =
    eventTime.remove(namespace, time)

  override def deleteProcessingTimeTimer(namespace: Namespace, time: Long): Unit =
    processingTimers.remove(namespace, time)

  override def timersOfCurrentKey(kind: TimerKind): Seq[Timer[K]] = kind match {
    case TimerKind.EventTime => eventTime.all
    case TimerKind.ProcessingTime => processingTimers.all
  }

  override def deleteTimersOfCurrentKey(): Int = eventTime.clear() + processingTimers.clear()

  /** Fires all timers of the current key. Call it before the next key becomes current, and at the end of input. */
  def finishKey(): Unit = {
    finishing = true
    try {
      eventTime.fireAll(target.onEventTime)
      processingTimers.fireAll(target.onProcessingTime)
    } finally finishing = false
  }

  private final class Timers(kind: TimerKind) {
    private val timerType = new TimerType(kind, keySerializer, maxKeyGroups = 1)
    private val order = new TimerOrder(timerType)
    private val queue = new BatchExecutionInternalPriorityQueueSet[Timer[K]](order)

    def add(namespace: Namespace, time: Long): Unit =
      if (!finishing) {
        queue.add(timerType.newTimer(keySerializer.copy(keyContext.currentKey), namespace, time))
      }

    def remove(namespace: Namespace, time: Long): Unit =
      queue.remove(timerType.newTimer(keyContext.currentKey, namespace, time))

    def all: Seq[Timer[K]] = queue.iterator.toVector
      .sorted(Ordering.by[Timer[K], Long](_.timestamp).orElse(Ordering.comparatorToOrdering(order)))
      .map(_.copied)

    def clear(): Int = {
      val count = queue.size
      queue.clear()
      count
    }

    def fireAll(trigger: Timer[K] => Unit): Unit = {
      var timer = queue.poll()
      while (timer != null) {
        trigger(timer)
        timer = queue.poll()
      }
    }
  }
}
