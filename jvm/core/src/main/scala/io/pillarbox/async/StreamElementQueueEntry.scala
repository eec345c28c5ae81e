package io.pillarbox.async

import java.util

/**
 * An element in a [[StreamElementQueue]], and the node by which the queue links it. Mailbox thread only.
 *
 * @param timestampMs
 *   of the record, or the watermark itself
 */
class StreamElementQueueEntry[IN, OUT](
    final val input: IN,
    final val timestampMs: Long,
    final val isWatermark: Boolean
) {
  private[this] var rows: util.Collection[OUT] = _
  private[this] var row: OUT = _
  private[this] var done = isWatermark

  private[async] final var previous: StreamElementQueueEntry[IN, OUT] = _
  private[async] final var next: StreamElementQueueEntry[IN, OUT] = _
  private[async] final var nextCompleted: StreamElementQueueEntry[IN, OUT] = _
  private[async] final var segment: UnorderedSegment[IN, OUT] = _

  /** Whether it has its rows. A watermark is born done. */
  final def isDone: Boolean = done

  /** Gives the entry its rows; then the queue is to be told. */
  final def setResults(results: util.Collection[OUT]): Unit = {
    rows = results
    done = true
  }

  /** Gives the entry its only row; then the queue is to be told. */
  final def setResult(result: OUT): Unit = {
    row = result
    done = true
  }

  private[async] final def emitTo(output: AsyncOutput[IN, OUT]): Unit =
    if (isWatermark) output.emitWatermark(timestampMs)
    else if (rows ne null) output.emit(input, timestampMs, rows)
    else output.emitOne(input, timestampMs, row)
}

object StreamElementQueueEntry {
  def watermark[IN, OUT](timestampMs: Long): StreamElementQueueEntry[IN, OUT] =
    new StreamElementQueueEntry[IN, OUT](null.asInstanceOf[IN], timestampMs, true)
}
