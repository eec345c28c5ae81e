package io.pillarbox.state

/** A clock that a test moves by hand. */
final class ManualClock(var processingTime: Long = 1000L) extends StateClock {
  var watermark: Long = StateClock.Unknown
  var recordTimestamp: Long = StateClock.Unknown
}
