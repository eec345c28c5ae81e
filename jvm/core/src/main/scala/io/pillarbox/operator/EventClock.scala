package io.pillarbox.operator

import io.pillarbox.state.StateClock

/**
 * The times that an operator's state and function live by, in milliseconds since 1970: make it first, give it
 * to the state backend, then to the [[KeyedSchedule]], which keeps it up to date. Mailbox thread only.
 */
private[pillarbox] final class EventClock extends StateClock {
  private var now = StateClock.Unknown
  private var seen = StateClock.Unknown
  private var record = StateClock.Unknown

  /**
   * How far time has come for the key of the event in progress, all that was before it done with: where keys
   * have a time each, what a timer sees at least; else the watermark.
   */
  private[pillarbox] var reached: Long = StateClock.Unknown

  override def processingTime: Long = now

  /** The watermark that the event in progress sees. */
  override def watermark: Long = seen

  /** Where keys have a time each, others may have rows of the time that this one has come to. */
  override def cleanupWatermark: Long = math.min(seen, KeyedSchedule.before(reached))

  /**
   * The time of the row or event-time timer in progress; a processing-time timer has a time of another clock.
   */
  override def recordTimestamp: Long = record

  private[pillarbox] def processingTime_=(time: Long): Unit = now = time

  private[pillarbox] def watermark_=(time: Long): Unit = seen = time

  private[pillarbox] def recordTimestamp_=(time: Long): Unit = record = time

  /** All events see this watermark from now on. */
  private[pillarbox] def advanceTo(watermark: Long): Unit = {
    seen = watermark
    reached = watermark
  }
}
