package io.pillarbox.spark.keyed

import io.pillarbox.spark.checkpoint.DueTimes
import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

/** When the first timers of each kind are due, over all partitions; `Long.MaxValue` where there is none. */
private[pillarbox] final class NextTimers private extends AccumulatorV2[(Long, Long), (Long, Long)] {
  @volatile private var first = NextTimers.None

  /** See [[DueTimes]]. */
  def areDue(watermark: Long, time: Long): Boolean = DueTimes(first._1, first._2).areDue(watermark, time)

  override def isZero: Boolean = first == NextTimers.None

  override def copy(): NextTimers = {
    val copy = new NextTimers
    copy.first = first
    copy
  }

  override def reset(): Unit = first = NextTimers.None

  override def add(times: (Long, Long)): Unit =
    first = (math.min(first._1, times._1), math.min(first._2, times._2))

  override def merge(other: AccumulatorV2[(Long, Long), (Long, Long)]): Unit = add(other.value)

  override def value: (Long, Long) = first
}

private[pillarbox] object NextTimers {
  private val None = (Long.MaxValue, Long.MaxValue)

  /** One that counts what successful tasks add. */
  def register(sc: SparkContext): NextTimers = {
    val timers = new NextTimers
    sc.register(timers)
    timers
  }
}
