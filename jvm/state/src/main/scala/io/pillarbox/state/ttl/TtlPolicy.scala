package io.pillarbox.state.ttl

import scala.jdk.OptionConverters._

import io.pillarbox.api.StateTtl.{Update, Visibility}
import io.pillarbox.api.{StateDescriptor, StateTtl, TimeDomain}
import io.pillarbox.state._

/**
 * Decides by one TTL configuration over primitive timestamps. Allocates nothing.
 *
 * A timestamp of [[StateClock.Unknown]] means that no time was known when the value was written (or its TTL
 * was switched on): its life starts at the first watermark that is known to the backend, else when it is met
 * with a time known.
 */
private[pillarbox] final class TtlPolicy(val config: StateTtl, backend: KeyedStateBackend[_]) {
  private val clock = backend.clock
  private val ttl = config.ttlMs
  private val eventTime = config.timeDomain == TimeDomain.EVENT_TIME
  private val renewsOnRead = config.update == Update.ON_READ_AND_WRITE

  val returnsExpired: Boolean = config.visibility == Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP

  /** True if a new timestamp depends on the stored one, so that a write must look at it first. */
  val needsStored: Boolean = eventTime

  def now: Long = if (eventTime) clock.watermark else clock.processingTime

  /** The time by which entries of other keys than the current one are cleared away, at `now`. */
  def cleanupTime(now: Long): Long = if (eventTime) clock.cleanupWatermark else now

  /** The latest timestamp that is expired at `now` (or Unknown): ts + ttl <= now, without overflow. */
  def limit(now: Long): Long = {
    val limit = now - ttl
    if (limit > now) StateClock.Unknown else limit
  }

  def isExpired(timestamp: Long, now: Long): Boolean = {
    val upTo = limit(now)
    timestamp <= upTo && Timestamped.isUpTo(timestamp, upTo, start)
  }

  /** The stored timestamp; for Unknown the start of life, if it is known. */
  def known(timestamp: Long): Long = if (timestamp == StateClock.Unknown) start else timestamp

  /** The start of life of values without a timestamp; Unknown as long as it is not known. */
  def start: Long = if (eventTime) backend.firstWatermark else StateClock.Unknown

  /** The first timestamp of a value that has none, and is met alive at `now`. */
  def first(now: Long): Long =
    if (now == StateClock.Unknown || start == StateClock.Unknown) now else start

  /** The new timestamp of a value with this one that was met alive at `now`; the same if no time is known. */
  def afterRead(now: Long, timestamp: Long): Long =
    if (renewsOnRead) timestampAt(now, timestamp)
    else if (timestamp == StateClock.Unknown) first(now)
    else timestamp

  /** The timestamp to which reading raises a list's elements; Unknown if it does not. */
  def raise(now: Long): Long = if (renewsOnRead) timestampAt(now) else StateClock.Unknown

  /** The timestamp of a value written or read at `now` over one stamped `stored`. */
  def timestampAt(now: Long, stored: Long): Long =
    if (eventTime) math.max(timestampAt(now), known(stored))
    else if (now == StateClock.Unknown) stored
    else now

  /** The timestamp of a value that replaces nothing. */
  def timestampAt(now: Long): Long = {
    val record = if (eventTime) clock.recordTimestamp else StateClock.Unknown
    if (record == StateClock.Unknown) now else record
  }
}

private[pillarbox] object TtlPolicy {

  def of(descriptor: StateDescriptor[_], backend: KeyedStateBackend[_]): Option[TtlPolicy] =
    descriptor.ttl.toScala.map(new TtlPolicy(_, backend))

  /** Returns the time of the state's clock; Unknown without TTL. */
  def now(descriptor: StateDescriptor[_], backend: KeyedStateBackend[_]): Long =
    of(descriptor, backend).fold(StateClock.Unknown)(_.now)
}
