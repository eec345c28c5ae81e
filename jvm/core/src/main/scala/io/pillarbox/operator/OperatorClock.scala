package io.pillarbox.operator

import io.pillarbox.state.StateClock

/**
 * The times that an operator's state lives by: make it first, give it to the state backend, then to the operator, which
 * keeps it up to date. Mailbox thread only.
 *
 * @param processingTimeSource
 *   milliseconds since 1970
 */
final class OperatorClock(processingTimeSource: () => Long) extends StateClock {
  private[operator] var currentWatermark: Long = StateClock.Unknown
  private[operator] var currentTimestamp: Long = StateClock.Unknown

  override def processingTime: Long = processingTimeSource()

  override def watermark: Long = currentWatermark

  override def recordTimestamp: Long = currentTimestamp
}
