package io.pillarbox.spark.keyed.python

import io.pillarbox.operator.EventClock
import io.pillarbox.state.StateClock

/**
 * Lets state be read as it is, although it has a TTL: no time is known then, so nothing is expired and nothing renewed. Lists
 * carry out what the worker decided for all their elements by being read at a time that comes to the same. Task thread only.
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

  /** What is stamped up to `stamp` is expired, for a TTL of `ttlMs`; of event time nothing is renewed. */
  def expiring(stamp: Long, ttlMs: Long): Unit = {
    val now = stamp + ttlMs
    set(now, now, RawClock.Earliest)
  }

  /** Entries are stamped at least `stamp`, and none is expired. */
  def raising(stamp: Long): Unit = set(stamp, RawClock.Earliest, stamp)

  /** Entries without a timestamp are stamped `stamp`, at which none that is left is expired. */
  def meeting(stamp: Long): Unit = set(stamp, stamp, StateClock.Unknown)

  def restore(): Unit = set(processingTime, watermark, StateClock.Unknown)

  private def set(processing: Long, event: Long, record: Long): Unit = {
    clock.processingTime = processing
    clock.watermark = event
    clock.recordTimestamp = record
  }
}

private object RawClock {

  /** A time that is known, and before any timestamp. */
  private final val Earliest = StateClock.Unknown + 1
}
