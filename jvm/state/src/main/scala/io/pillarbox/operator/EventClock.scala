package io.pillarbox.operator

import io.pillarbox.state.StateClock

/**
 * The times of the event in progress, in milliseconds since 1970: made first, given to the state backend,
 * then to the [[KeyedSchedule]], which keeps it up to date. Mailbox thread only.
 */
private[pillarbox] final class EventClock extends StateClock {
  var processingTime: Long = StateClock.Unknown

  /** The watermark that the event in progress sees. */
  var watermark: Long = StateClock.Unknown

  /** The time of the row or event-time timer in progress; unknown for a timer of another clock. */
  var recordTimestamp: Long = StateClock.Unknown

  /**
   * The time up to which all events of the key in progress are done with. Where keys have a time each, it is
   * the least that a timer sees; else it is the watermark.
   */
  var reached: Long = StateClock.Unknown

  /** Stays before the time that this key has reached: other keys may still have rows of that time. */
  override def cleanupWatermark: Long = math.min(watermark, KeyedSchedule.before(reached))

  /** Makes all events see this watermark from now on. */
  def advanceTo(time: Long): Unit = {
    watermark = time
    reached = time
  }
}
