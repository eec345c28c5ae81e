package io.pillarbox.spark.state

import io.pillarbox.api.TimeDomain
import io.pillarbox.operator.EventClock
import io.pillarbox.spark.checkpoint.DueTimes
import io.pillarbox.state.{KeyedStateBackend, StateClock}
import io.pillarbox.timer._
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * State and timers of one partition, with the clocks they go by. Stays open in the executor between
 * micro-batches; one task at a time uses it, and takes it over by [[takeOver]].
 *
 * @param trackChanges
 *   whether changes can be committed
 * @param timersInDatabase
 *   whether the timers are kept in the database of the state
 */
private[pillarbox] final class PartitionState(
    makeBackend: StateClock => KeyedStateBackend[UnsafeRow],
    makeQueues: KeyedStateBackend[UnsafeRow] => TimerQueues,
    release: () => Unit,
    trackChanges: Boolean,
    val timersInDatabase: Boolean = false
) extends AutoCloseable {
  val clock = new EventClock
  val backend: KeyedStateBackend[UnsafeRow] = makeBackend(clock)
  val timers: InternalTimerServiceImpl[UnsafeRow] = new InternalTimerServiceImpl[UnsafeRow](
    backend.keySerializer,
    backend.maxKeyGroups,
    backend.keyGroupRange,
    KeyContext.of(backend),
    makeQueues(backend),
    trackChanges
  )

  /** What the operator keeps from one micro-batch to the next. */
  var kept: AutoCloseable = _

  /** Whether the function of this query was opened on it, and so its states are known and in order. */
  var isClaimed = false

  /** Makes the calling thread the one that uses it. */
  def takeOver(): Unit = backend.takeOwnership()

  def dueTimes: DueTimes =
    DueTimes(timers.nextTimestamp(TimeDomain.EVENT_TIME), timers.nextTimestamp(TimeDomain.PROCESSING_TIME))

  override def close(): Unit =
    try if (kept != null) kept.close()
    finally
      try timers.close()
      finally
        try backend.close()
        finally release()
}
