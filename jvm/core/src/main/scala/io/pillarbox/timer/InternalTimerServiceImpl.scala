package io.pillarbox.timer

import java.io.{InputStream, OutputStream}

import io.pillarbox.mailbox.{ProcessingTimeService, ProcessingTimer}
import io.pillarbox.queue.CloseableIterator
import io.pillarbox.state.serialization.TypeSerializer
import io.pillarbox.state.{KeyGroupRange, Namespace}

/**
 * Keeps the timers of one partition and fires them: event-time timers when the watermark is advanced, processing-time
 * timers as mail of `clock`. Mailbox thread only.
 *
 * What a timer throws fails the round and comes out of it; that timer is gone then, so the task must fail too.
 *
 * @param maxKeyGroups
 *   fixed for the life of the timers, as that of the state beside them
 * @param interruption
 *   whether long rounds pause for other mail
 * @param trackChanges
 *   whether [[commit]] can write what changed; costs a map entry a changed timer
 */
final class InternalTimerServiceImpl[K](
    keySerializer: TypeSerializer[K],
    maxKeyGroups: Int,
    keyGroupRange: KeyGroupRange,
    keyContext: KeyContext[K],
    target: Triggerable[K],
    clock: ProcessingTimeService,
    queues: TimerQueues = TimerQueues.Heap,
    interruption: TimerInterruption = TimerInterruption.Never,
    trackChanges: Boolean = false
) extends InternalTimerService[K] {

  private val eventTime = newStore(TimerKind.EventTime)
  private val processingTime = newStore(TimerKind.ProcessingTime)
  private val log = new TimerLog(keySerializer, maxKeyGroups, keyGroupRange)
  private val eventBudget = new FiringBudget
  private val processingBudget = new FiringBudget
  private val onEventTime: Timer[K] => Unit = target.onEventTime
  private val onProcessingTime: Timer[K] => Unit = target.onProcessingTime

  private val wakeUp: ProcessingTimer = new ProcessingTimer {
    override def onProcessingTime(timestampMs: Long): Unit = fireProcessingTime()
  }
  private var wakeUpAt = Long.MaxValue

  /** Between the start of a processing-time round and its end, pauses included: its end schedules the next. */
  private var inRound = false
  private var watermark = Long.MinValue

  override def currentProcessingTime: Long = clock.currentProcessingTime

  override def currentWatermark: Long = watermark

  override def registerEventTimeTimer(namespace: Namespace, time: Long): Unit =
    eventTime.add(keyContext.currentKey, namespace, time)

  override def registerProcessingTimeTimer(namespace: Namespace, time: Long): Unit =
    if (processingTime.add(keyContext.currentKey, namespace, time) && !inRound) scheduleNext()

  override def deleteEventTimeTimer(namespace: Namespace, time: Long): Unit =
    eventTime.remove(keyContext.currentKey, namespace, time)

  override def deleteProcessingTimeTimer(namespace: Namespace, time: Long): Unit =
    processingTime.remove(keyContext.currentKey, namespace, time)

  override def timersOfCurrentKey(kind: TimerKind): Seq[Timer[K]] = storeOf(kind).ofKey(keyContext.currentKey)

  override def deleteTimersOfCurrentKey(): Int =
    Seq(eventTime, processingTime).map { store =>
      val timers = store.ofKey(keyContext.currentKey)
      timers.foreach(store.remove)
      timers.size
    }.sum

  /**
   * Makes `time` the watermark, unless it is later already, and fires the event-time timers up to it.
   *
   * @return
   *   true if all that are due have fired; false after an interruption: call it again, after other mail
   */
  def advanceWatermark(time: Long): Boolean = {
    watermark = math.max(watermark, time)
    fire(eventTime, watermark, eventBudget, onEventTime)
  }

  /** The watermark a restored task starts with; fires nothing. */
  def initializeWatermark(time: Long): Unit = watermark = time

  /**
   * Fires the processing-time timers up to `time`, for tasks that don't let the clock send mail.
   *
   * @return
   *   as [[advanceWatermark]]
   */
  def advanceProcessingTime(time: Long): Boolean = {
    inRound = true
    val done = fire(processingTime, time, processingBudget, onProcessingTime)
    if (done) {
      inRound = false
      scheduleNext()
    }
    done
  }

  /**
   * Takes out the next timer of the kind that is due up to `time`, as one that fires; null if there is none.
   *
   * For operators that decide themselves when a timer's function runs. Watermark and current key stay as they are.
   */
  def pollDue(kind: TimerKind, time: Long): Timer[K] = {
    val store = storeOf(kind)
    if (store.nextTimestamp <= time && store.peek() != null) store.poll() else null
  }

  /** When the next timer of the kind is due; `Long.MaxValue` if there is none. */
  def nextTimestamp(kind: TimerKind): Long = storeOf(kind).nextTimestamp

  /** How many timers of the kind there are; may have to count them in the store. */
  def numTimers(kind: TimerKind): Int = storeOf(kind).size

  /** Calls `action` with a copy of every timer of the kind, in no order, its key being the current one. */
  def forEachTimer(kind: TimerKind)(action: Timer[K] => Unit): Unit = {
    val timers: CloseableIterator[Timer[K]] = storeOf(kind).iterator
    try
      timers.foreach { timer =>
        val copy = timer.copied
        keyContext.setCurrentKey(copy.key)
        action(copy)
      }
    finally timers.close()
  }

  /** Writes all timers in the portable format, key group by key group. Flushes the stream, doesn't close it. */
  def snapshot(out: OutputStream): Unit = log.writeSnapshot(out, eventTime, processingTime)

  /** The timers of one key group as a snapshot of its own. */
  def snapshotKeyGroup(keyGroup: Int, out: OutputStream): Unit =
    log.writeSnapshot(out, eventTime, processingTime, Seq(keyGroup))

  /**
   * Writes the timers registered and gone since the last commit or restore. If it throws, they stay uncommitted.
   *
   * @throws UnsupportedOperationException
   *   if the service was made without tracking changes
   */
  def commit(out: OutputStream): Unit = {
    if (!trackChanges) {
      throw new UnsupportedOperationException(
        "This timer service keeps no changes: make it with trackChanges, or take a snapshot"
      )
    }
    log.writeChanges(out, eventTime, processingTime)
    Seq(eventTime, processingTime).foreach(_.forgetChanges())
  }

  /**
   * Reads a snapshot, or a commit that follows what was read so far; timers of other partitions are left out. Due
   * processing-time timers fire as mail afterwards.
   *
   * @param source
   *   names the file in errors
   * @throws io.pillarbox.state.StateRestoreException
   *   if it is damaged, of a newer format or another key type; the service must not be used then
   */
  def restore(in: InputStream, source: String): Unit = {
    log.read(in, source, eventTime, processingTime)
    Seq(eventTime, processingTime).foreach(_.forgetChanges())
    scheduleNext()
  }

  /** Writes what the queues hold back to their store: before a checkpoint of it. */
  def flush(): Unit = {
    eventTime.flush()
    processingTime.flush()
  }

  /** Fires nothing more by itself. */
  def close(): Unit = clock.cancel(wakeUp)

  private def newStore(kind: TimerKind): TimerStore[K] =
    new TimerStore(new TimerType(kind, keySerializer, maxKeyGroups), keyGroupRange, queues, trackChanges)

  private def storeOf(kind: TimerKind): TimerStore[K] = kind match {
    case TimerKind.EventTime => eventTime
    case TimerKind.ProcessingTime => processingTime
  }

  private def fire(
      store: TimerStore[K],
      time: Long,
      budget: FiringBudget,
      trigger: Timer[K] => Unit
  ): Boolean = {
    var untilPause = budget.current
    var head = store.peek()
    while (head != null && head.timestamp <= time) {
      if (untilPause <= 0 && interruption.shouldInterrupt) {
        budget.paused()
        return false
      }
      val timer = store.poll()
      keyContext.setCurrentKey(timer.key)
      trigger(timer)
      untilPause -= 1
      head = store.peek()
    }
    budget.finished()
    true
  }

  private def fireProcessingTime(): Unit = {
    wakeUpAt = Long.MaxValue
    if (!advanceProcessingTime(clock.currentProcessingTime)) {
      interruption.continueLater(() => fireProcessingTime(), "fire more processing-time timers")
    }
  }

  private def scheduleNext(): Unit = {
    val next = processingTime.peek()
    if (next != null && (next.timestamp < wakeUpAt || !wakeUp.isScheduled)) {
      wakeUpAt = next.timestamp
      clock.schedule(wakeUp, wakeUpAt)
    }
  }
}
