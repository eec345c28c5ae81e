package io.pillarbox.api;

/**
 * Calls something outside for each input, without waiting for the answer.
 *
 * <p>Every method is called on the mailbox thread and must not block it. An exception that one of them throws
 * counts as a failure of the call, except from {@link #open} and {@link #close}, where it fails the task.
 *
 * @param <IN> what is asked; a Spark {@code Row} for {@code pb.JvmFunction}
 * @param <OUT> what is answered; a Spark {@code Row} for {@code pb.JvmFunction}
 */
public interface AsyncFunction<IN, OUT> {

  /** Called once before the first call: open clients here. */
  default void open(OpenContext context) throws Exception {}

  /** Called once after the last call; all that were in flight have been told to {@link #cancel}. */
  default void close() throws Exception {}

  /** Starts one attempt. The future is to be completed once, from any thread, now or later. */
  void asyncInvoke(IN input, ResultFuture<OUT> resultFuture) throws Exception;

  /**
   * The total deadline of the element has passed, and no further attempt follows. Completing the future
   * decides the element; if this leaves it open, an answer may still come, and until then the element stays
   * in flight. By default it fails with an {@link AsyncTimeoutException}.
   */
  default void timeout(IN input, ResultFuture<OUT> resultFuture) throws Exception {
    resultFuture.completeExceptionally(
        AsyncTimeoutException.total(resultFuture.attempt(), resultFuture.elapsedMs()));
  }

  /**
   * The answer to this attempt is no longer wanted: its own deadline or the total one has passed, or the
   * operator is closed. What the future is completed with from now on is dropped. May be told once too often,
   * of an attempt that ends at this very moment.
   */
  default void cancel(IN input, ResultFuture<OUT> resultFuture) throws Exception {}
}
