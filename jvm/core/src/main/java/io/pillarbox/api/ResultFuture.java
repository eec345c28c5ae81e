package io.pillarbox.api;

import java.util.Collection;

/** Takes the answer to one attempt. The first completion wins, later ones are ignored. Any thread. */
public interface ResultFuture<OUT> {

  /**
   * The rows that the element becomes; an empty collection means none. Null is a failure of the call. The
   * collection must not be changed afterwards.
   */
  void complete(Collection<OUT> results);

  /** As {@link #complete} with one row, but cheaper. Null is a failure of the call. */
  void completeOne(OUT result);

  /**
   * The attempt failed. Whether it is tried again, replaced by other rows or fails the task is for the
   * operator's retry strategy and failure policy.
   */
  void completeExceptionally(Throwable error);

  /**
   * The number of the element in this operator, from the operator's first element id. The same for all
   * attempts, and after a restore.
   */
  long elementId();

  /** The number of the attempt, from 1. */
  int attempt();

  /** Milliseconds since the first attempt of this element started; 0 if it was given ahead and has not. */
  long elapsedMs();

  /** Whether an answer has been given, or is no longer wanted. */
  boolean isDone();
}
