package io.pillarbox.spark.keyed

import io.pillarbox.mailbox.{ProcessingTimeService, ProcessingTimer}
import io.pillarbox.state.{KeyedStateBackend, StateClock}
import io.pillarbox.timer._
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * State and timers of one partition, with the clocks they go by. Stays open in the executor between micro-batches; one
 * task at a time uses it, and takes it over by [[takeOver]].
 *
 * @param trackChanges
 *   whether changes can be committed
 * @param timersInDatabase
 *   whether the timers are kept in the database of the state
 */
final class PartitionState(
    makeBackend: StateClock => KeyedStateBackend[UnsafeRow],
    makeQueues: KeyedStateBackend[UnsafeRow] => TimerQueues,
    release: () => Unit,
    trackChanges: Boolean,
    val timersInDatabase: Boolean = false
) extends AutoCloseable {
  val clock = new TaskClock
  val backend: KeyedStateBackend[UnsafeRow] = makeBackend(clock)
  val timers: InternalTimerServiceImpl[UnsafeRow] = new InternalTimerServiceImpl[UnsafeRow](
    backend.keySerializer,
    backend.maxKeyGroups,
    backend.keyGroupRange,
    new KeyContext[UnsafeRow] {
      override def currentKey: UnsafeRow = backend.currentKey
      override def setCurrentKey(key: UnsafeRow): Unit = backend.setCurrentKey(key)
    },
    PartitionState.Polled,
    PartitionState.NoWakeUps,
    makeQueues(backend),
    TimerInterruption.Never,
    trackChanges
  )

  /** What the operator keeps from one micro-batch to the next. */
  var kept: AutoCloseable = _

  /** Whether the function of this query was opened on it, and so its states are known and in order. */
  var isClaimed = false

  /** Makes the calling thread the one that uses it. */
  def takeOver(): Unit = backend.takeOwnership()

  /** When the next timer of a kind is due; `Long.MaxValue` if there is none. */
  def nextTimer(kind: TimerKind): Long = timers.nextTimestamp(kind)

  /** Whether a timer of a kind is due at `time`; none is at `Long.MinValue`, which stands for no watermark. */
  def isDue(kind: TimerKind, time: Long): Boolean = time != Long.MinValue && nextTimer(kind) <= time

  override def close(): Unit =
    try if (kept != null) kept.close()
    finally
      try backend.close()
      finally release()
}

/** The times that a partition's state goes by; set by whoever processes. Task thread only. */
final class TaskClock extends StateClock {
  var processingTime: Long = StateClock.Unknown
  var watermark: Long = StateClock.Unknown
  var recordTimestamp: Long = StateClock.Unknown
}

private object PartitionState {

  /** Timers are polled by the driver; none fires by itself. */
  object Polled extends Triggerable[UnsafeRow] {
    override def onEventTime(timer: Timer[UnsafeRow]): Unit = unexpected(timer)
    override def onProcessingTime(timer: Timer[UnsafeRow]): Unit = unexpected(timer)
    private def unexpected(timer: Timer[UnsafeRow]): Unit =
      throw new IllegalStateException(s"$timer fired by itself: timers of a Spark task are polled")
  }

  /** Processing time in Spark is the micro-batch's; the query wakes up by itself. */
  object NoWakeUps extends ProcessingTimeService {
    override def processingTimeAt(nanos: Long): Long = StateClock.Unknown
    override def nanoTime: Long = System.nanoTime
    override def schedule(timer: ProcessingTimer, timestampMs: Long): Unit = ()
    override def cancel(timer: ProcessingTimer): Boolean = false
    override def scheduledTimers: Int = 0
    override def close(): Unit = ()
  }
}
