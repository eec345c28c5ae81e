package io.pillarbox.spark.checkpoint

/** When the next timers of each kind are due, in milliseconds since 1970; `Long.MaxValue` where there is none. */
final case class DueTimes(eventTime: Long, processingTime: Long) {

  /** The earlier time of each kind. */
  def min(that: DueTimes): DueTimes =
    DueTimes(math.min(eventTime, that.eventTime), math.min(processingTime, that.processingTime))
}

object DueTimes {
  val Never: DueTimes = DueTimes(Long.MaxValue, Long.MaxValue)
}
