package io.pillarbox.async

import scala.annotation.unused

/**
 * Calls something outside for each input, without waiting for the answer.
 *
 * Every method is called on the mailbox thread and must not block it. An exception that one of them throws counts as
 * a failure of the call, except from `open` and `close`, where it fails the task.
 *
 * With a look-ahead ([[AsyncOptions.lookAhead]]) it is handed elements before their turn: then it keeps as many places
 * as the capacity. A first attempt takes one or, if none is free, waits in line for one; an element leaves its place
 * when the future is completed with rows, or when the operator has [[gaveUp]]. Further attempts start in the place of
 * the first. The operator counts along, so deadlines of an element in line don't run yet.
 */
trait AsyncFunction[IN, OUT] {

  /** Before the first call. */
  @throws[Exception]
  def open(): Unit = ()

  /** After the last call; all that were in flight have been told to [[cancel]]. */
  @throws[Exception]
  def close(): Unit = ()

  /** Starts one attempt. The future is to be completed once, from any thread, now or later. */
  @throws[Exception]
  def asyncInvoke(input: IN, resultFuture: ResultFuture[OUT]): Unit

  /**
   * The total deadline of the element has passed, and no further attempt follows. Completing the future decides the
   * element; if this leaves it open, an answer may still come, and until then the element stays in flight. By
   * default it fails with an [[AsyncTimeoutException]].
   */
  @throws[Exception]
  def timeout(@unused input: IN, resultFuture: ResultFuture[OUT]): Unit =
    resultFuture.completeExceptionally(
      AsyncTimeoutException.total(resultFuture.attempt, resultFuture.elapsedMs)
    )

  /**
   * The answer to this attempt is no longer wanted: its own deadline or the total one has passed, or the operator is
   * closed. What the future is completed with from now on is dropped. May be told once too often, of an attempt that
   * ends at this very moment.
   */
  @throws[Exception]
  def cancel(input: IN, resultFuture: ResultFuture[OUT]): Unit = ()

  /** No further attempt follows for this element, which has failed for good. May be told twice. */
  def gaveUp(@unused elementId: Long): Unit = ()
}
