package io.pillarbox.operator

import io.pillarbox.state.StateClock
import io.pillarbox.timer.TimerKind

/** Where an operator's rows and watermarks go. Called on the mailbox thread. */
trait Output[OUT] {

  /** @param timestamp in milliseconds since 1970, [[Output.NoTimestamp]] if the row has none */
  def collect(value: OUT, timestamp: Long): Unit

  /** A row for a side output; whoever does not know the tag drops it. */
  def collect[X](tag: OutputTag[X], value: X, timestamp: Long): Unit

  /** A timer is about to fire: for whoever counts them. */
  def fired(kind: TimerKind): Unit = ()

  /** No row with a timestamp up to `timestamp` follows, except those of late rows. */
  def emitWatermark(timestamp: Long): Unit
}

object Output {

  /** The timestamp of a row without one. */
  final val NoTimestamp: Long = StateClock.Unknown
}

/** Names a side output; tags are equal by their name. */
final case class OutputTag[X](id: String) {
  require(id.nonEmpty, "A side output needs a name, found an empty one")
}
