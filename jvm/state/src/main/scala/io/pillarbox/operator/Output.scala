package io.pillarbox.operator

import io.pillarbox.api.{OutputTag, TimeDomain}
import io.pillarbox.state.StateClock

/** Takes an operator's rows and watermarks. Called on the mailbox thread. */
private[pillarbox] trait Output[OUT] {

  /** @param timestamp in milliseconds since 1970, [[Output.NoTimestamp]] if the row has none */
  def collect(value: OUT, timestamp: Long): Unit

  /** Takes a row for a side output; an owner that does not know the tag drops it. */
  def collect[X](tag: OutputTag[X], value: X, timestamp: Long): Unit

  /** Tells that a timer is about to fire, for owners that count them. */
  def fired(kind: TimeDomain): Unit = ()

  /** Tells that no row with a timestamp up to `timestamp` follows, except late rows. */
  def emitWatermark(timestamp: Long): Unit
}

private[pillarbox] object Output {

  /** The timestamp of a row without one. */
  final val NoTimestamp: Long = StateClock.Unknown
}
