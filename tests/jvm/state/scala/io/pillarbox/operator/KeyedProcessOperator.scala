package io.pillarbox.operator

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream, OutputStream}

import io.pillarbox.api.{KeyedProcessFunction, TimeDomain}
import io.pillarbox.mailbox.{ProcessingTimeService, ProcessingTimer}
import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.timer._

/**
 * Runs a keyed process function on a stream, in the order of [[ArrivalOrder]]. Mailbox thread only.
 *
 * Each row is processed at once. A watermark fires the event-time timers up to it before it is passed on;
 * processing-time timers fire as mail of `processingTime`. State and timers are written and restored
 * together, in two streams.
 *
 * @param keySelector
 *   the key of a row, never null
 * @param backend
 *   made with `clock`; the operator closes it
 * @param trackTimerChanges
 *   whether [[commit]] can be used
 */
final class KeyedProcessOperator[K, IN, OUT](
    function: KeyedProcessFunction[K, IN, OUT],
    keySelector: IN => K,
    backend: KeyedStateBackend[K],
    clock: EventClock,
    processingTime: ProcessingTimeService,
    queues: TimerQueues = TimerQueues.Heap,
    trackTimerChanges: Boolean = false
) extends OneInputOperator[IN, OUT] {
  private val timers = new InternalTimerServiceImpl[K](backend, queues, trackTimerChanges)
  private val rows = new OneRow[IN]
  private var schedule: ArrivalOrder[K, IN] = _
  private var output: Output[OUT] = _
  private var highest = Long.MinValue
  private var forwarded = Long.MinValue
  private var wakeUpAt = Long.MaxValue

  private val wakeUp: ProcessingTimer = new ProcessingTimer {
    override def onProcessingTime(timestampMs: Long): Unit = {
      wakeUpAt = Long.MaxValue
      schedule.advance(Long.MinValue, processingTime.currentProcessingTime)
      fire()
    }
  }

  override def open(output: Output[OUT]): Unit = {
    this.output = output
    tellTime()
    val states = new FunctionStates[K]("keyed", backend, identity)
    function.open(states)
    val view = new PlainView[K, IN](keySelector)
    val target = new FunctionTarget(function, states, backend, timers, clock, output, view)
    schedule = new ArrivalOrder(rows, timers, clock, target)
    scheduleWakeUp()
  }

  override def processElement(value: IN, timestamp: Long): Unit = {
    tellTime()
    rows.put(value, timestamp)
    schedule.step()
    scheduleWakeUp()
  }

  /** A watermark below an earlier one moves nothing; timers that are due by the earlier one fire. */
  override def processWatermark(timestamp: Long): Unit = {
    backend.noteWatermark(timestamp)
    highest = math.max(highest, timestamp)
    schedule.advance(highest, Long.MinValue)
    fire()
  }

  /** No timer fires for it: a stream that ends sends a last watermark first if its timers should. */
  override def endInput(): Unit = ()

  /** Writes all state and all timers. The streams are flushed, not closed. */
  def snapshot(state: OutputStream, timers: OutputStream): Unit = {
    backend.snapshot(state)
    this.timers.snapshot(timers)
  }

  /** Writes what changed since the last commit or restore. The streams are flushed, not closed. */
  def commit(state: OutputStream, timers: OutputStream): Unit = {
    backend.commit(state)
    this.timers.commit(timers)
  }

  /**
   * Reads a snapshot, or a commit that follows what was read so far. Before [[open]].
   *
   * @param source
   *   names the files in errors
   */
  def restore(state: InputStream, timers: InputStream, source: String): Unit = {
    tellTime()
    backend.restore(state, source)
    this.timers.restore(timers, source)
  }

  /** The watermark that a restored operator goes on with: no timer fires for it, and no row. */
  def initializeWatermark(timestamp: Long): Unit = clock.advanceTo(timestamp)

  override def snapshot(): OperatorSnapshot = {
    val (state, timerBytes) = (new ByteArrayOutputStream, new ByteArrayOutputStream)
    snapshot(state, timerBytes)
    OperatorSnapshot(state.toByteArray, timerBytes.toByteArray, clock.watermark)
  }

  override def restore(snapshot: OperatorSnapshot): Unit = {
    val source = "a snapshot in memory"
    restore(new ByteArrayInputStream(snapshot.state), new ByteArrayInputStream(snapshot.timers), source)
    initializeWatermark(snapshot.watermark)
  }

  override def close(): Unit =
    try function.close()
    finally {
      processingTime.cancel(wakeUp)
      backend.close()
    }

  private def tellTime(): Unit = clock.processingTime = processingTime.currentProcessingTime

  /** Fires what is due. */
  private def fire(): Unit = {
    tellTime()
    while (schedule.step()) {}
    forwardIfNew(highest)
    scheduleWakeUp()
  }

  private def forwardIfNew(time: Long): Unit = if (time > forwarded) {
    forwarded = time
    output.emitWatermark(time)
  }

  private def scheduleWakeUp(): Unit = {
    val next = timers.nextTimestamp(TimeDomain.PROCESSING_TIME)
    if (next < wakeUpAt) {
      wakeUpAt = next
      processingTime.schedule(wakeUp, next)
    }
  }
}
