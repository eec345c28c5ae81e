package io.pillarbox.async.lease

/**
 * The tokens of a rate, each of which is used up to `tokenNanos` after it was given: so that in no stretch of
 * the interval more than `starts` are used, a few less are given than the rate allows.
 *
 * The Generic Cell Rate Algorithm, ITU-T Recommendation I.371, by the time at which the bucket would be full.
 * One thread at a time.
 */
private[lease] final class TokenBucket(terms: LeaseTerms) {

  /** Processes ask now and then, and get what came meanwhile. */
  private val tolerance = terms.tokenNanos
  private val spacing =
    (terms.intervalNanos + terms.tokenNanos + tolerance + terms.starts - 1) / terms.starts
  private var isNew = true
  private var fullAt = 0L

  def available(now: Long): Int = {
    val free = tolerance - (base(now) - now)
    if (free < 0) 0 else math.min(Int.MaxValue.toLong, free / spacing + 1).toInt
  }

  /** As many as are available, or fewer. */
  def take(count: Int, now: Long): Int = {
    fullAt = base(now) + spacing * count
    isNew = false
    count
  }

  /** Whether a new one would give just as many. */
  def isFull(now: Long): Boolean = base(now) == now

  /** By difference, as the clock may wrap. */
  private def base(now: Long): Long = if (!isNew && fullAt - now > 0) fullAt else now
}
