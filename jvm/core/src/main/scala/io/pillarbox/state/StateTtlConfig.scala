package io.pillarbox.state

import java.time.Duration

import io.pillarbox.state.StateTtlConfig._

/**
 * How long state lives after it was last written (or read), and how the dead is cleared away.
 *
 * A value, list element or map entry is expired once its timestamp plus `ttl` is at or before the clock's time.
 *
 * @param ttl how long, in milliseconds, more than 0
 * @param updateType what renews the timestamp
 * @param visibility whether an expired value may be seen once more
 * @param timeCharacteristic which clock counts; event time gives the same answer on every replay
 * @param cleanup how expired state that nobody reads goes away
 * @throws IllegalArgumentException if `ttl` is not positive
 */
final case class StateTtlConfig(
    ttl: Long,
    updateType: UpdateType = OnCreateAndWrite,
    visibility: StateVisibility = NeverReturnExpired,
    timeCharacteristic: TtlTimeCharacteristic = ProcessingTime,
    cleanup: CleanupStrategies = CleanupStrategies()
) {
  require(ttl > 0, s"A time to live must be more than 0 ms, found $ttl ms")

  /** Whether timestamps are kept at all. */
  def isEnabled: Boolean = updateType != Disabled
}

object StateTtlConfig {

  /** @throws IllegalArgumentException if the duration is shorter than a millisecond */
  def of(ttl: Duration): StateTtlConfig = StateTtlConfig(ttl.toMillis)

  sealed trait UpdateType

  /** State never expires; as if no TTL had been given. */
  case object Disabled extends UpdateType
  case object OnCreateAndWrite extends UpdateType
  case object OnReadAndWrite extends UpdateType

  sealed trait StateVisibility
  case object NeverReturnExpired extends StateVisibility

  /** An expired value is returned once, if no clean-up came first, and then removed. */
  case object ReturnExpiredIfNotCleanedUp extends StateVisibility

  /** Which clock decides. The code is written to disk. */
  sealed abstract class TtlTimeCharacteristic(val code: Int)
  case object ProcessingTime extends TtlTimeCharacteristic(1)

  /** Timestamp: the later of the record's and the stored one. Time: the watermark. */
  case object EventTime extends TtlTimeCharacteristic(2)

  /**
   * How expired state that nobody reads goes away. Each backend takes what concerns it.
   *
   * @param inFullSnapshot leave expired entries out of snapshots; the running backend keeps them
   * @param incrementalEntries heap: how many entries are looked at for each access to the state; 0 switches it off. Up to
   *   8 accesses share one look, at the first of them
   * @param incrementalEveryRecord heap: also look at that many each time a current key is set
   * @param atCompaction RocksDB: drop expired entries when files are compacted (processing time only)
   */
  final case class CleanupStrategies(
      inFullSnapshot: Boolean = false,
      incrementalEntries: Int = 5,
      incrementalEveryRecord: Boolean = false,
      atCompaction: Boolean = true
  ) {
    require(incrementalEntries >= 0, s"incrementalEntries must be 0 or more, found $incrementalEntries")
  }

  object CleanupStrategies {

    /** No clean-up but on reads. */
    val none: CleanupStrategies = CleanupStrategies(incrementalEntries = 0, atCompaction = false)
  }
}
