package io.pillarbox.state.ttl

import io.pillarbox.state.StateTtlConfig._
import io.pillarbox.state.{StateClock, StateTtlConfig}

/**
 * The decisions of one TTL configuration over primitive timestamps. Allocates nothing.
 *
 * A timestamp of [[StateClock.Unknown]] means that no time was known when the value was written (or its TTL was
 * switched on): it never is expired, and its life starts when it is first met with a time known.
 */
private[state] final class TtlPolicy(val config: StateTtlConfig, clock: StateClock) {
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

  def isExpired(timestamp: Long, limit: Long): Boolean = timestamp <= limit && timestamp != StateClock.Unknown

  /** Whether a value written at `now` is stamped `now`, whatever its timestamp was. */
  def replacesStored(now: Long): Boolean = !eventTime && now != StateClock.Unknown

  /** The timestamp of a value written or read at `now` over one stamped `stored`; that one, if no time is known. */
  def stamp(now: Long, stored: Long): Long =
    if (replacesStored(now)) now
    else if (!eventTime) stored
    else {
      val record = clock.recordTimestamp
      math.max(if (record == StateClock.Unknown) now else record, stored)
    }

  /** The timestamp of a value where nothing was. */
  def stamp(now: Long): Long = stamp(now, StateClock.Unknown)
}

private[state] object TtlPolicy {

  /** A policy, or null if the state has no TTL. */
  def of(config: Option[StateTtlConfig], clock: StateClock): TtlPolicy =
    config.filter(_.isEnabled).fold(null: TtlPolicy)(new TtlPolicy(_, clock))
}
