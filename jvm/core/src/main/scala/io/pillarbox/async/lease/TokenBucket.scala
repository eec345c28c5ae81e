package io.pillarbox.async.lease

/**
 * The tokens of a rate, each of which is used up to `tokenNanos` after it was given. To keep at most `starts`
 * in any stretch of the interval, a few less are given than the rate allows.
 *
 * The Generic Cell Rate Algorithm, ITU-T Recommendation I.371, by the time at which the bucket would be full.
 * One thread at a time.
 */
private[lease] final class TokenBucket(terms: LeaseTerms) {

  /** Processes ask now and then, and get the tokens of the time between. */
  private val tolerance = terms.tokenNanos
  private val spacing =
    (terms.intervalNanos + terms.tokenNanos + tolerance + terms.starts - 1) / terms.starts
  private var isNew = true
  private var fullAt = 0L

  def available(now: Long): Int = {
    val free = tolerance - (base(now) - now)
    if (free < 0) 0 else math.min(Int.MaxValue.toLong, free / spacing + 1).toInt
  }

  /** Takes `count` tokens, at most as many as are available. */
  def take(count: Int, now: Long): Int = {
    fullAt = base(now) + spacing * count
    isNew = false
    count
  }

  /** True if a new bucket would give just as many. */
  def isFull(now: Long): Boolean = base(now) == now

  /** Compares by difference, as the clock may wrap. */
  private def base(now: Long): Long = if (!isNew && fullAt - now > 0) fullAt else now
}
