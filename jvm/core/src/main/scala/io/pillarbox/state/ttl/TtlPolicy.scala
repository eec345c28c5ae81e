package io.pillarbox.state.ttl

import io.pillarbox.state.StateTtlConfig._
import io.pillarbox.state.{KeyedStateBackend, StateClock, StateTtlConfig}

/**
 * The decisions of one TTL configuration over primitive timestamps. Allocates nothing.
 *
 * A timestamp of [[StateClock.Unknown]] means that no time was known when the value was written (or its TTL was
 * switched on): its life starts at the first watermark that is known to the backend, else when it is met with a time known.
 */
private[state] final class TtlPolicy(val config: StateTtlConfig, backend: KeyedStateBackend[_]) {
  private[this] val clock = backend.clock
  private[this] val ttl = config.ttl
  private[this] val eventTime = config.timeCharacteristic == EventTime

  val renewsOnRead: Boolean = config.updateType == OnReadAndWrite
  val returnsExpired: Boolean = config.visibility == ReturnExpiredIfNotCleanedUp

  /** Whether a new timestamp depends on the stored one, so that a write must look at it first. */
  val needsStored: Boolean = eventTime

  def now: Long = if (eventTime) clock.watermark else clock.processingTime

  /** The time by which entries of other keys than the current one are cleared away, at `now`. */
  def cleanupTime(now: Long): Long = if (eventTime) clock.cleanupWatermark else now

  /** A timestamp at or below the result is expired at `now` (or Unknown): ts + ttl <= now, without overflow. */
  def limit(now: Long): Long = {
    val limit = now - ttl
    if (limit > now) StateClock.Unknown else limit
  }

  /** Whether a value stored with this timestamp is expired, for the [[limit]] of a time. */
  def isExpired(timestamp: Long, limit: Long): Boolean =
    timestamp <= limit && {
      val life = known(timestamp)
      life <= limit && life != StateClock.Unknown
    }

  /** The stored timestamp, or that which stands for Unknown, if any does. */
  def known(timestamp: Long): Long =
    if (timestamp == StateClock.Unknown && eventTime) backend.firstWatermark else timestamp

  /** Whether a value written at `now` is stamped `now`, whatever its timestamp was. */
  def replacesStored(now: Long): Boolean = !eventTime && now != StateClock.Unknown

  /** The timestamp of a value that was met alive at `now` and stored with this one; no change where no time is known. */
  def afterRead(now: Long, timestamp: Long): Long =
    if (renewsOnRead) stamp(now, timestamp)
    else if (timestamp == StateClock.Unknown && now != StateClock.Unknown) firstStamp(now)
    else timestamp

  /** The timestamp of a value written or read at `now` over one stamped `stored`; that one, if no time is known. */
  def stamp(now: Long, stored: Long): Long =
    if (replacesStored(now)) now
    else if (!eventTime) stored
    else math.max(stamp(now), known(stored))

  /** The timestamp of a value where nothing was. */
  def stamp(now: Long): Long = {
    val record = if (eventTime) clock.recordTimestamp else StateClock.Unknown
    if (record == StateClock.Unknown) now else record
  }

  /** The first timestamp of a value that was written when no time was known, and is met alive at `now`. */
  def firstStamp(now: Long): Long = {
    val start = known(StateClock.Unknown)
    if (start == StateClock.Unknown) now else start
  }
}

private[state] object TtlPolicy {

  /** A policy, or null if the state has no TTL. */
  def of(config: Option[StateTtlConfig], backend: KeyedStateBackend[_]): TtlPolicy =
    config.filter(_.isEnabled).fold(null: TtlPolicy)(new TtlPolicy(_, backend))
}
