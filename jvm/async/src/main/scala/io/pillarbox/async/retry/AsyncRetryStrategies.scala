package io.pillarbox.async.retry

import java.util.function.Predicate

/**
 * The strategies that come with the library. `maxAttempts` counts all attempts, the first included: 1 means
 * no retry. (Flink's strategies count the repetitions.)
 */
private[pillarbox] object AsyncRetryStrategies {

  /** Returns the strategy without a second attempt. */
  def noRetry[OUT]: AsyncRetryStrategy[OUT] = NoRetry.asInstanceOf[AsyncRetryStrategy[OUT]]

  private object NoRetry extends AsyncRetryStrategy[Any] {
    override def canRetry(attempt: Int): Boolean = false
    override def backoffMs(attempt: Int, draw: Double): Long = 0L
    override def retryOnException(error: Throwable): Boolean = false
  }

  /**
   * Lets the delay grow by `factor` with every attempt up to `maxDelayMs`, and then moves it up or down by at
   * most the share `jitter` of it, so that calls which failed together don't come back together.
   *
   * Exponential backoff with jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog
   * (2015).
   *
   * @param jitter 0 (none) to 1 (full)
   * @throws IllegalArgumentException if a value is out of range
   */
  def exponentialBackoff[OUT](
      maxAttempts: Int,
      initialDelayMs: Long,
      maxDelayMs: Long,
      factor: Double,
      jitter: Double
  ): Backoff[OUT] =
    new Backoff[OUT](maxAttempts, initialDelayMs, maxDelayMs, factor, jitter, AnyException)

  private val AnyException: Predicate[Throwable] = _ => true

  /** Exponential backoff with jitter. */
  final class Backoff[OUT] private[AsyncRetryStrategies] (
      maxAttempts: Int,
      initialDelayMs: Long,
      maxDelayMs: Long,
      factor: Double,
      jitter: Double,
      onException: Predicate[Throwable]
  ) extends AsyncRetryStrategy[OUT] {
    require(
      maxAttempts >= 1,
      s"maxAttempts counts the first attempt too and must be at least 1, not $maxAttempts"
    )
    require(initialDelayMs >= 0, s"The retry delay must not be negative, but is $initialDelayMs ms")
    require(
      maxDelayMs >= initialDelayMs,
      s"The longest retry delay, $maxDelayMs ms, is below the first, $initialDelayMs ms"
    )
    require(factor >= 1.0, s"The backoff factor must be at least 1, not $factor")
    require(jitter >= 0.0 && jitter <= 1.0, s"The jitter must lie between 0 and 1, not at $jitter")

    /** Returns a copy that retries only exceptions for which the predicate holds. */
    def ifException(predicate: Predicate[Throwable]): Backoff[OUT] =
      new Backoff(maxAttempts, initialDelayMs, maxDelayMs, factor, jitter, predicate)

    override def canRetry(attempt: Int): Boolean = attempt < maxAttempts

    override def backoffMs(attempt: Int, draw: Double): Long = {
      val grown = initialDelayMs.toDouble * math.pow(factor, (attempt - 1).toDouble)
      // Compared as doubles: far out, the power is infinite.
      val capped = math.min(grown, maxDelayMs.toDouble)
      (capped * (1.0 + jitter * (2.0 * draw - 1.0))).toLong
    }

    override def retryOnException(error: Throwable): Boolean = onException.test(error)
  }
}

/**
 * Decides if and when an attempt is repeated. Called on the mailbox thread; it must not block.
 *
 * Attempts count from 1. An exception that is [[NotRetryable]] is never retried, and one that [[RetryAfter]]
 * sets the delay itself.
 */
private[pillarbox] trait AsyncRetryStrategy[OUT] {

  /** True if another attempt may follow the one numbered `attempt`. */
  def canRetry(attempt: Int): Boolean

  /**
   * The milliseconds to wait after the attempt numbered `attempt`.
   *
   * @param draw a random number from 0 until 1: elements that have the same one come back together
   */
  def backoffMs(attempt: Int, draw: Double): Long

  def retryOnException(error: Throwable): Boolean
}
