package io.pillarbox.async.retry

import java.util

/** Decides what becomes of an element that has failed for good. Called on the mailbox thread. */
private[pillarbox] trait FailurePolicy[IN, OUT] {

  /**
   * Returns the rows to emit in place of an answer; or throws, which fails the task.
   *
   * @param cause the failure of the last attempt; an [[AsyncTimeoutException]] if there was no answer in time
   */
  @throws[Exception]
  def onFailure(call: FailedCall[IN], cause: Throwable): util.Collection[OUT]

  /** Takes note of an attempt that failed, and is made again. Must not throw. */
  def onRetry(input: IN, attempt: Int, cause: Throwable): Unit = ()
}

/**
 * A call that failed for good.
 *
 * @param attempts the number of attempts that were made
 * @param elapsedMs the time since the first attempt started
 * @param callId its idempotency key, or that of the one call which several inputs share
 */
private[pillarbox] final case class FailedCall[IN](input: IN, attempts: Int, elapsedMs: Long, callId: String)

private[pillarbox] object FailurePolicy {

  /** Fails the task with an [[AsyncCallException]]. */
  def failTask[IN, OUT]: FailurePolicy[IN, OUT] = (call, cause) =>
    throw new AsyncCallException(call.attempts, call.elapsedMs, cause)
}

/** A call failed for good, after all its attempts; the cause is the failure of the last. */
private[pillarbox] final class AsyncCallException(val attempts: Int, val elapsedMs: Long, cause: Throwable)
    extends RuntimeException(
      s"An async call failed after $attempts attempt(s) in $elapsedMs ms: $cause. " +
        "Retry it, raise its timeout, or choose a failure policy that keeps the task going.",
      cause
    )
