package io.pillarbox.spark.checkpoint

/** The times of the next timers of each kind in milliseconds since 1970; `Long.MaxValue` for none. */
private[pillarbox] final case class DueTimes(eventTime: Long, processingTime: Long) {

  /** The earlier time of each kind. */
  def min(that: DueTimes): DueTimes =
    DueTimes(math.min(eventTime, that.eventTime), math.min(processingTime, that.processingTime))

  /** True if a timer is due. A watermark of `Long.MinValue` stands for none: no event-time timer is due. */
  def areDue(watermark: Long, time: Long): Boolean =
    (watermark != Long.MinValue && eventTime <= watermark) || processingTime <= time
}

private[pillarbox] object DueTimes {
  val Never: DueTimes = DueTimes(Long.MaxValue, Long.MaxValue)

  /** Converts Spark's watermark, which is 0 before there is one, and never below. */
  def watermark(sparks: Long): Long = if (sparks > 0) sparks else Long.MinValue
}
