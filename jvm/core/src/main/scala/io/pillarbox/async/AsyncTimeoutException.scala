package io.pillarbox.async

import java.util.concurrent.TimeoutException

/**
 * No answer came in time.
 *
 * @param isTotal
 *   the deadline over all attempts has passed; otherwise that of one attempt
 * @param attempt
 *   the attempt that was under way, or the last one, from 1
 * @param elapsedMs
 *   since the first attempt started if `isTotal`, else since this attempt started
 */
final class AsyncTimeoutException private (
    val isTotal: Boolean,
    val attempt: Int,
    val elapsedMs: Long,
    message: String
) extends TimeoutException(message)

object AsyncTimeoutException {

  def total(attempt: Int, elapsedMs: Long): AsyncTimeoutException = new AsyncTimeoutException(
    true,
    attempt,
    elapsedMs,
    s"The call was not answered within its total timeout: $elapsedMs ms since the first attempt, in attempt $attempt. " +
      "Raise the timeout, or look at why the service is slow."
  )

  def attempt(attempt: Int, elapsedMs: Long): AsyncTimeoutException = new AsyncTimeoutException(
    false,
    attempt,
    elapsedMs,
    s"Attempt $attempt of the call was not answered within its attempt timeout: $elapsedMs ms. " +
      "Raise the attempt timeout, or look at why the service is slow."
  )
}
