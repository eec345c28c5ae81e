package io.pillarbox.operator

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InputStream, OutputStream}

import io.pillarbox.mailbox.ProcessingTimeService
import io.pillarbox.state.KeyedStateBackend
import io.pillarbox.timer._

/**
 * Runs a keyed process function on a stream. Mailbox thread only.
 *
 * Each row is processed with its key current. A watermark fires the event-time timers up to it before it is passed on;
 * if `interruption` makes a long round pause, rows may be processed in between, as in Flink. Processing-time timers fire
 * as mail of `processingTime`. State and timers are written and restored together, in two streams.
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
    clock: OperatorClock,
    processingTime: ProcessingTimeService,
    queues: TimerQueues = TimerQueues.Heap,
    interruption: TimerInterruption = TimerInterruption.Never,
    trackTimerChanges: Boolean = false
) extends OneInputOperator[IN, OUT] {

  private val runner = new KeyedFunctionRunner(function, backend, clock)
  private var watermarks: MailboxWatermarkProcessor = _

  /** The timers of this operator, for whoever advances time by other means than watermarks and mail. */
  val timers: InternalTimerServiceImpl[K] = new InternalTimerServiceImpl[K](
    backend.keySerializer,
    backend.maxKeyGroups,
    backend.keyGroupRange,
    runner,
    runner,
    processingTime,
    queues,
    interruption,
    trackTimerChanges
  )

  override def open(output: Output[OUT]): Unit = {
    watermarks = new MailboxWatermarkProcessor(timers, interruption, output.emitWatermark)
    runner.open(output, timers)
  }

  override def processElement(value: IN, timestamp: Long): Unit =
    runner.processElement(keySelector(value), value, timestamp)

  override def processWatermark(timestamp: Long): Unit = {
    backend.noteWatermark(timestamp)
    clock.currentWatermark = math.max(clock.currentWatermark, timestamp)
    watermarks.processWatermark(timestamp)
  }

  /** Whether timers up to the last watermark still have to fire; they do as the mailbox runs. */
  def isFiring: Boolean = watermarks.isPending

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
    backend.restore(state, source)
    this.timers.restore(timers, source)
  }

  /** The watermark that a restored operator goes on with: no timer fires for it, and no row. */
  def initializeWatermark(timestamp: Long): Unit = {
    clock.currentWatermark = timestamp
    timers.initializeWatermark(timestamp)
  }

  override def snapshot(): OperatorSnapshot = {
    val (state, timerBytes) = (new ByteArrayOutputStream, new ByteArrayOutputStream)
    snapshot(state, timerBytes)
    OperatorSnapshot(state.toByteArray, timerBytes.toByteArray, timers.currentWatermark)
  }

  override def restore(snapshot: OperatorSnapshot): Unit = {
    val source = "a snapshot in memory"
    restore(new ByteArrayInputStream(snapshot.state), new ByteArrayInputStream(snapshot.timers), source)
    initializeWatermark(snapshot.watermark)
  }

  override def close(): Unit =
    try runner.close()
    finally {
      timers.close()
      backend.close()
    }
}
