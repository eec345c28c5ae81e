package io.pillarbox.spark.state

import java.util.SplittableRandom
import java.util.function.LongSupplier

import io.pillarbox.operator.SpaceSaving
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Finds the key with most rows of a partition, from a sample of its rows: the first are all in it, and later
 * one in 1024. The weight of a row halves each minute. Mailbox thread only.
 *
 * @param nanoTime the clock by which it halves
 * @param random decides how many rows are left out before the next one of the sample
 */
private[pillarbox] final class HotKeys(
    nanoTime: LongSupplier = () => System.nanoTime,
    random: SplittableRandom = new SplittableRandom
) {
  import HotKeys._

  private val sketch = new SpaceSaving[UnsafeRow](Counters, _.copy())
  private var gap = 1
  private var left = 1
  private var halvedNanos = nanoTime.getAsLong
  private var reportedNanos = 0L
  private var hasReported = false

  /** Counts a row; true if its key belongs to the sample, and [[add]] is to follow. */
  def isNext: Boolean = {
    left -= 1
    left == 0
  }

  /** Adds the key of the row, for it and those before it that were left out. */
  def add(key: UnsafeRow): Unit = {
    halveBy(nanoTime.getAsLong)
    sketch.add(key, gap.toDouble)
    // So no row of the sample weighs more than about a 128th of all.
    val mean = math.min(LongestGap, 1 + sketch.total / FirstRows).toInt
    gap = 1 + random.nextInt(2 * mean - 1)
    left = gap
  }

  /** True, and a report is to follow, if there was none for so long. */
  def isReportDue(periodNanos: Long): Boolean = {
    val now = nanoTime.getAsLong
    halveBy(now)
    val isDue = !hasReported || now - reportedNanos >= periodNanos
    if (isDue) {
      reportedNanos = now
      hasReported = true
    }
    isDue
  }

  private def halveBy(now: Long): Unit = while (now - halvedNanos >= HalfLifeNanos) {
    sketch.halve()
    halvedNanos += HalfLifeNanos
  }

  /** The key with most rows and the number of these, if any row was counted. */
  def hottest: Option[(UnsafeRow, Double)] = sketch.heaviest

  /** The number of rows of all keys. */
  def rows: Double = sketch.total
}

private object HotKeys {
  private final val Counters = 64
  private final val FirstRows = 128
  private final val LongestGap = 1024
  private final val HalfLifeNanos = 60L * 1000 * 1000 * 1000
}
