package io.pillarbox.operator

import io.pillarbox.state.StateClock

/**
 * The times of the event in progress, in milliseconds since 1970: made first, given to the state backend,
 * then to the [[KeyedSchedule]], which keeps it up to date. Mailbox thread only.
 */
private[pillarbox] final class EventClock extends StateClock {
  private var now = StateClock.Unknown
  private var seen = StateClock.Unknown
  private var record = StateClock.Unknown

  /**
   * The time up to which all events of the key in progress are done with. Where keys have a time each, it is
   * the least that a timer sees; else it is the watermark.
   */
  private[pillarbox] var reached: Long = StateClock.Unknown

  override def processingTime: Long = now

  /** The watermark that the event in progress sees. */
  override def watermark: Long = seen

  /** Stays before the time that this key has reached: other keys may still have rows of that time. */
  override def cleanupWatermark: Long = math.min(seen, KeyedSchedule.before(reached))

  /** The time of the row or event-time timer in progress; unknown for a timer of another clock. */
  override def recordTimestamp: Long = record

  private[pillarbox] def processingTime_=(time: Long): Unit = now = time

  private[pillarbox] def watermark_=(time: Long): Unit = seen = time

  private[pillarbox] def recordTimestamp_=(time: Long): Unit = record = time

  /** Makes all events see this watermark from now on. */
  private[pillarbox] def advanceTo(watermark: Long): Unit = {
    seen = watermark
    reached = watermark
  }
}
