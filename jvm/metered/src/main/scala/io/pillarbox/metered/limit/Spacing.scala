package io.pillarbox.metered.limit

/**
 * Spreads amounts evenly over time: the next may be charged once the time of those before it has passed, but
 * for the tolerance. So one amount of any size may be charged, and the next waits for longer.
 *
 * The Generic Cell Rate Algorithm, ITU-T Recommendation I.371, by the time at which its bucket would be full.
 * One thread at a time.
 *
 * @param spacingNanos the time of an amount of 1
 * @param toleranceNanos the time by which charges may be early, to make up for those that came late
 * @param mostCredit the time of what is taken back that is kept
 */
private[metered] final class Spacing(spacingNanos: Double, toleranceNanos: Long, mostCredit: Long) {
  private var isNew = true
  private var fullAt = 0L
  private var credit = 0L

  /** The time until something may be charged. */
  def waitNanos(now: Long): Long = math.max(0L, base(now) - now - toleranceNanos)

  /**
   * The amount that may be charged without debt; negative in debt.
   *
   * @param earlier the time by which charges may be early beside the tolerance
   */
  def available(now: Long, earlier: Long): Double =
    (toleranceNanos + earlier - (base(now) - now)) / spacingNanos

  def charge(amount: Double, now: Long): Unit = {
    val time = math.min(Spacing.Longest, math.ceil(amount * spacingNanos)).toLong
    val paid = math.min(credit, time)
    credit -= paid
    fullAt = base(now) + time - paid
    isNew = false
  }

  /** Takes a charge back. What exceeds the present debt is kept for what comes. */
  def giveBack(amount: Double, now: Long): Unit = if (!isNew) {
    val time = math.min(Spacing.Longest, math.floor(amount * spacingNanos)).toLong
    val debt = base(now) - now
    fullAt = now + math.max(0L, debt - time)
    credit = math.min(mostCredit, credit + math.max(0L, time - debt))
  }

  /** Compares by difference, as the clock may wrap. */
  private def base(now: Long): Long = if (!isNew && fullAt - now > 0) fullAt else now
}

private object Spacing {

  /** Ten years. */
  private final val Longest = 3.2e17
}
