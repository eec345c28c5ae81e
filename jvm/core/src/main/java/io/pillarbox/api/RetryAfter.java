package io.pillarbox.api;

/** Marks an exception that says itself when to try again, as an HTTP Retry-After does. */
public interface RetryAfter {

  /** The wait in milliseconds, from when the failure is handled. */
  long retryAfterMs();
}
