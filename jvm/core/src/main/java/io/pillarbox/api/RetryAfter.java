package io.pillarbox.api;

/** To be implemented by an exception that says itself when to try again, as an HTTP Retry-After does. */
public interface RetryAfter {

  /** Milliseconds, from when the failure is handled. */
  long retryAfterMs();
}
