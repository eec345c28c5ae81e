package io.pillarbox.spark.keyed.python

import io.pillarbox.operator.EventClock
import io.pillarbox.state.StateClock

/**
 * Lets state be read and written as it is, although it has a TTL: while reading, no time is known, so nothing is expired
 * and nothing renewed; while writing, the time is what the entry is to be stamped with. Task thread only.
 */
final private class RawClock(clock: EventClock) {
  private var processingTime = StateClock.Unknown
  private var watermark = StateClock.Unknown

  /** Keeps the true times, which [[restore]] sets again. */
  def save(): Unit = {
    processingTime = clock.processingTime
    watermark = clock.watermark
  }

  def reading(): Unit = set(StateClock.Unknown, StateClock.Unknown, StateClock.Unknown)

  /** The next entry written is stamped `stamp`, whichever time its TTL goes by. */
  def writing(stamp: Long): Unit = set(stamp, watermark, stamp)

  /** What is stamped up to `stamp` is expired, for a TTL of `ttlMs`. */
  def expiring(stamp: Long, ttlMs: Long): Unit = {
    val now = stamp + ttlMs
    set(now, now, StateClock.Unknown)
  }

  /** Entries are stamped at least `stamp`, and none is expired: event time. */
  def raising(stamp: Long): Unit = set(stamp, Long.MinValue + 1, stamp)

  def restore(): Unit = set(processingTime, watermark, StateClock.Unknown)

  private def set(processing: Long, event: Long, record: Long): Unit = {
    clock.processingTime = processing
    clock.watermark = event
    clock.recordTimestamp = record
  }
}
