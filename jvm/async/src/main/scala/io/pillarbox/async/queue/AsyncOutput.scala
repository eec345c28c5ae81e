package io.pillarbox.async.queue

import java.util

/**
 * Takes what leaves the operator, in the order in which it may leave. Called on the mailbox thread, once for
 * an element.
 */
private[pillarbox] trait AsyncOutput[IN, OUT] {

  /**
   * Takes the rows of one element, perhaps none.
   *
   * @param timestampMs the time of the element, or [[AsyncOutput.NoTimestamp]]
   */
  def emit(input: IN, timestampMs: Long, results: util.Collection[OUT]): Unit

  /** Takes the one row of an element that was answered by `completeOne`. */
  def emitOne(input: IN, timestampMs: Long, result: OUT): Unit =
    emit(input, timestampMs, util.Collections.singletonList(result))
}

private[pillarbox] object AsyncOutput {

  /** The timestamp of an element without one. */
  val NoTimestamp: Long = Long.MinValue
}
