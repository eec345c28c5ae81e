package io.pillarbox.async.queue

import java.util

/**
 * Takes what leaves the operator, in the order in which it may leave. Called on the mailbox thread, one call
 * an element.
 */
private[pillarbox] trait AsyncOutput[IN, OUT] {

  /**
   * The rows of one element, perhaps none.
   *
   * @param timestampMs
   *   of the element, or [[AsyncOutput.NoTimestamp]]
   */
  def emit(input: IN, timestampMs: Long, results: util.Collection[OUT]): Unit

  /** The one row of an element that was answered by `completeOne`. */
  def emitOne(input: IN, timestampMs: Long, result: OUT): Unit =
    emit(input, timestampMs, util.Collections.singletonList(result))

  def emitWatermark(timestampMs: Long): Unit
}

private[pillarbox] object AsyncOutput {

  /** An element without a timestamp. */
  val NoTimestamp: Long = Long.MinValue
}
