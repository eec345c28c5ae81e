package io.pillarbox.api;

import java.util.concurrent.TimeoutException;

/** No answer came in time. */
public final class AsyncTimeoutException extends TimeoutException {
  private static final long serialVersionUID = 1L;

  private final boolean isTotal;
  private final int attempt;
  private final long elapsedMs;

  private AsyncTimeoutException(boolean isTotal, int attempt, long elapsedMs, String message) {
    super(message + ", or look at why the service is slow.");
    this.isTotal = isTotal;
    this.attempt = attempt;
    this.elapsedMs = elapsedMs;
  }

  /**
   * The deadline over all attempts has passed, {@code elapsedMs} after the first one started.
   *
   * @param attempt 0 for a call that an earlier run has made, and whose answer this one asks for
   */
  public static AsyncTimeoutException total(int attempt, long elapsedMs) {
    String since = attempt == 0 ? "this run first asked for its answer" : "the first attempt, in attempt " + attempt;
    String message = "The call was not answered within its total timeout: " + elapsedMs
        + " ms since " + since + ". Raise the timeout";
    return new AsyncTimeoutException(true, attempt, elapsedMs, message);
  }

  /** The deadline of one attempt has passed, {@code elapsedMs} after it started. */
  public static AsyncTimeoutException attempt(int attempt, long elapsedMs) {
    String message = "Attempt " + attempt + " of the call was not answered within its attempt timeout: "
        + elapsedMs + " ms. Raise attempt of pb.Timeout";
    return new AsyncTimeoutException(false, attempt, elapsedMs, message);
  }

  /** Tells if the deadline over all attempts passed; otherwise the deadline of one attempt did. */
  public boolean isTotal() {
    return isTotal;
  }

  /** The attempt that was under way, or the last one, from 1; 0 for a call that an earlier run has made. */
  public int attempt() {
    return attempt;
  }

  /** Milliseconds since the first attempt started if {@link #isTotal}, else since this one started. */
  public long elapsedMs() {
    return elapsedMs;
  }
}
