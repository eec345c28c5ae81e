package io.pillarbox.state

import io.pillarbox.api.KeyedProcessFunction

/**
 * The clock of state, in milliseconds since 1970; read on the owner thread, once an access. The time of
 * event-time state is the watermark, so a replay of the same data gives the same answer.
 */
private[pillarbox] trait StateClock {

  def processingTime: Long

  /** The current watermark, [[StateClock.Unknown]] before the first one. */
  def watermark: Long

  /** The least watermark that any later access, of any key, can see: entries expired by it are never seen. */
  def cleanupWatermark: Long = watermark

  /** The timestamp of the record or timer being processed, [[StateClock.Unknown]] if it has none. */
  def recordTimestamp: Long
}

private[pillarbox] object StateClock {

  /** Stands for a time that is not known yet, also towards functions. */
  final val Unknown: Long = KeyedProcessFunction.NO_TIMESTAMP
}
