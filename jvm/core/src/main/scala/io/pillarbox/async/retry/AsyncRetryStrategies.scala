package io.pillarbox.async.retry

import java.util
import java.util.function.{DoubleSupplier, Predicate}

/**
 * The strategies that come with the library. `maxAttempts` counts all attempts, the first included: 1 means
 * no retry. (Flink's strategies count the repetitions.)
 */
private[pillarbox] object AsyncRetryStrategies {

  /** Returns the strategy without a second attempt. */
  def noRetry[OUT]: AsyncRetryStrategy[OUT] = NoRetry.asInstanceOf[AsyncRetryStrategy[OUT]]

  private object NoRetry extends AsyncRetryStrategy[Any] {
    override def canRetry(attempt: Int): Boolean = false
    override def backoffMs(attempt: Int): Long = 0L
    override def retryOnException(error: Throwable): Boolean = false
  }

  /**
   * Waits the same delay after every attempt.
   *
   * @throws IllegalArgumentException if `maxAttempts` < 1 or `delayMs` < 0
   */
  def fixedDelay[OUT](maxAttempts: Int, delayMs: Long): Backoff[OUT] =
    new Backoff[OUT](maxAttempts, delayMs, delayMs, 1.0, 0.0, NoRandom, AnyException, null)

  /**
   * Lets the delay grow by `factor` with every attempt up to `maxDelayMs`; then up to the share `jitter` of
   * it is taken off at random, so that elements which failed together don't come back together.
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
    new Backoff[OUT](
      maxAttempts,
      initialDelayMs,
      maxDelayMs,
      factor,
      jitter,
      ThreadRandom,
      AnyException,
      null
    )

  private val NoRandom: DoubleSupplier = () => 0.0
  private val ThreadRandom: DoubleSupplier = () => util.concurrent.ThreadLocalRandom.current().nextDouble()
  private val AnyException: Predicate[Throwable] = _ => true

  /** Fixed and exponential backoff; the `with` methods give changed copies. */
  final class Backoff[OUT] private[AsyncRetryStrategies] (
      maxAttempts: Int,
      initialDelayMs: Long,
      maxDelayMs: Long,
      factor: Double,
      jitter: Double,
      random: DoubleSupplier,
      onException: Predicate[Throwable],
      onResult: Predicate[util.Collection[OUT]]
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

    /** Sets the source of the jitter: doubles from 0 (inclusive) to 1 (exclusive). */
    def withRandom(source: DoubleSupplier): Backoff[OUT] =
      new Backoff(maxAttempts, initialDelayMs, maxDelayMs, factor, jitter, source, onException, onResult)

    /** Retries only exceptions for which the predicate holds. */
    def ifException(predicate: Predicate[Throwable]): Backoff[OUT] =
      new Backoff(maxAttempts, initialDelayMs, maxDelayMs, factor, jitter, random, predicate, onResult)

    /** Also retries results for which the predicate holds; after the last attempt such a result stands. */
    def ifResult(predicate: Predicate[util.Collection[OUT]]): Backoff[OUT] =
      new Backoff(maxAttempts, initialDelayMs, maxDelayMs, factor, jitter, random, onException, predicate)

    override def canRetry(attempt: Int): Boolean = attempt < maxAttempts

    override def backoffMs(attempt: Int): Long = {
      val grown = initialDelayMs.toDouble * math.pow(factor, (attempt - 1).toDouble)
      // Compared as doubles: far out, the power is infinite.
      val capped = math.min(grown, maxDelayMs.toDouble)
      if (jitter == 0.0) capped.toLong else (capped * (1.0 - jitter * random.getAsDouble)).toLong
    }

    override def retryOnException(error: Throwable): Boolean = onException.test(error)

    override def checksResults: Boolean = onResult ne null

    override def retryOnResult(results: util.Collection[OUT]): Boolean =
      checksResults && onResult.test(results)
  }
}
