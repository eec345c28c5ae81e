package io.pillarbox.state

import io.pillarbox.api.KeyedProcessFunction

/**
 * Where state reads the time. All in milliseconds since the epoch; called on the owner thread, once an
 * access.
 *
 * The time of event-time state is the watermark, so a replay of the same data gives the same answer.
 */
private[pillarbox] trait StateClock {

  /** Processing time. */
  def processingTime: Long

  /** The current watermark, [[StateClock.Unknown]] before the first one. */
  def watermark: Long

  /**
   * No access still to come, of whichever key, sees a watermark before it: what is expired by it, nobody will
   * see.
   */
  def cleanupWatermark: Long = watermark

  /** The timestamp of the record or timer being processed, [[StateClock.Unknown]] if it has none. */
  def recordTimestamp: Long
}

private[pillarbox] object StateClock {

  /** No time is known yet; what a function is shown then. */
  final val Unknown: Long = KeyedProcessFunction.NO_TIMESTAMP
}
