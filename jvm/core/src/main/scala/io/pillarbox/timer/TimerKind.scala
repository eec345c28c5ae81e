package io.pillarbox.timer

/** What makes a timer fire. The code is written to disk. */
sealed abstract class TimerKind(private[timer] val code: Int)

object TimerKind {

  /** The watermark has reached its time. */
  case object EventTime extends TimerKind(0)

  /** The clock of the task has reached its time. */
  case object ProcessingTime extends TimerKind(1)
}
