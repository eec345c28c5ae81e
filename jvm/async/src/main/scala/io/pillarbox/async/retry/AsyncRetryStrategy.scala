package io.pillarbox.async.retry

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
