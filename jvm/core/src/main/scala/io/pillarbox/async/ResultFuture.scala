package io.pillarbox.async

import java.util

/** Takes the answer to one attempt. The first completion wins, later ones are ignored. Any thread. */
trait ResultFuture[OUT] {

  /**
   * The rows that the element becomes; an empty collection means none. Null is a failure of the call. The collection
   * must not be changed afterwards.
   */
  def complete(results: util.Collection[OUT]): Unit

  /** As `complete` with one row, but cheaper. Null is a failure of the call. */
  def completeOne(result: OUT): Unit

  /**
   * The attempt failed. Whether it is tried again, replaced by other rows or fails the task is for the operator's
   * retry strategy and failure policy.
   */
  def completeExceptionally(error: Throwable): Unit

  /**
   * The number of the element in this operator, from the operator's first element id. The same for all attempts, and
   * after a restore.
   */
  def elementId: Long

  /** The number of the attempt, from 1. */
  def attempt: Int

  /** Milliseconds since the first attempt of this element started; 0 if it was given ahead and has not. */
  def elapsedMs: Long

  /** Whether an answer has been given, or is no longer wanted. */
  def isDone: Boolean
}
