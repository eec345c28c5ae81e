package io.pillarbox.async.retry

import java.util

/** Decides what becomes of an element that has failed for good. Called on the mailbox thread. */
private[pillarbox] trait FailurePolicy[IN, OUT] {

  /**
   * The rows to emit in place of an answer; or throws, which fails the task.
   *
   * @param cause
   *   of the last attempt; an [[AsyncTimeoutException]] if there was no answer in time
   * @param attempts
   *   that were made
   * @param elapsedMs
   *   since the first attempt started
   */
  @throws[Exception]
  def onFailure(input: IN, cause: Throwable, attempts: Int, elapsedMs: Long): util.Collection[OUT]
}

private[pillarbox] object FailurePolicy {

  /** Fails the task with an [[AsyncCallException]]. */
  def failTask[IN, OUT]: FailurePolicy[IN, OUT] = (_, cause, attempts, elapsedMs) =>
    throw new AsyncCallException(attempts, elapsedMs, cause)
}

/** A call failed for good, after all its attempts; the cause is the failure of the last. */
private[pillarbox] final class AsyncCallException(val attempts: Int, val elapsedMs: Long, cause: Throwable)
    extends RuntimeException(
      s"An async call failed after $attempts attempt(s) in $elapsedMs ms: $cause. " +
        "Retry it, raise its timeout, or choose a failure policy that keeps the task going.",
      cause
    )
