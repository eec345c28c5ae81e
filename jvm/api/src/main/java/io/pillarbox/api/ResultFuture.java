package io.pillarbox.api;

import java.util.Collection;

/** Takes the answer to one attempt. The first completion wins, others are ignored. Any thread calls it. */
public interface ResultFuture<OUT> {

  /**
   * Answers with the rows that the element becomes; an empty collection means none. Null is a failure of the
   * call. The collection must not be changed afterwards.
   */
  void complete(Collection<OUT> results);

  /** Answers as {@link #complete} does with one row, but cheaper. Null is a failure of the call. */
  void completeOne(OUT result);

  /**
   * Fails the attempt. The operator's retry strategy and failure policy decide if it is tried again, replaced
   * by other rows or fails the task.
   */
  void completeExceptionally(Throwable error);

  /**
   * The idempotency key: the same in every attempt, also in those of a task or micro-batch that runs again,
   * and never that of another call. It is the text that {@code pb.call_id()} gives to a function in Python: a
   * hash of what is asked with {@code call_key} or {@code journal}, of the place of the row and what the function
   * is given without them.
   */
  String callId();

  /**
   * Adds to what this attempt has used, such as tokens or dollars. Before the attempt is completed, so that
   * limits, budgets and the row's own account know it in time; later it counts into the operator's sums alone.
   * Never throws: another unit counts as well, but has no metric; what is no amount counts as 0. The driver
   * warns of both once.
   *
   * @param unit one of the operator's units, which {@code usage} names
   * @param amount a finite number from 0 on
   */
  void reportUsage(String unit, double amount);

  /** The number of the attempt, from 1. */
  int attempt();

  /** Milliseconds since the first attempt of this element started; 0 if it was given ahead and has not. */
  long elapsedMs();

  /** Tells if an answer has been given, or is no longer wanted. */
  boolean isDone();
}
