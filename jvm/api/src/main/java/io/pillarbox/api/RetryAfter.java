package io.pillarbox.api;

/** Marks an exception that says itself when to try again, as an HTTP Retry-After does. */
public interface RetryAfter {

  /** The wait in milliseconds, from when the failure is handled. */
  long retryAfterMs();

  /**
   * True if not only this call is to wait, but every one under the limits of its operator. Such a pause uses up
   * no attempt, and without limits there is none.
   */
  default boolean all() {
    return false;
  }
}
