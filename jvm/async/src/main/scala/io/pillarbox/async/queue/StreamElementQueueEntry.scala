package io.pillarbox.async.queue

import java.util

/**
 * An element in a [[StreamElementQueue]], and the node by which the queue links it. Mailbox thread only.
 *
 * @param timestampMs the time of the record
 */
private[pillarbox] class StreamElementQueueEntry[IN, OUT](final val input: IN, final val timestampMs: Long) {
  import StreamElementQueueEntry._

  /** A collection of rows or the row itself, as `kind` says: one field, since there are many entries. */
  private var answer: AnyRef = _
  private var kind: Byte = Open

  private[async] final var previous: StreamElementQueueEntry[IN, OUT] = _
  private[async] final var next: StreamElementQueueEntry[IN, OUT] = _
  private[async] final var nextCompleted: StreamElementQueueEntry[IN, OUT] = _

  /** True if it has its rows. */
  final def isDone: Boolean = kind != Open

  /** Gives the entry its rows; then the queue is to be told. */
  final def setResults(results: util.Collection[OUT]): Unit = {
    answer = results
    kind = Rows
  }

  /** Gives the entry its only row; then the queue is to be told. */
  final def setResult(result: OUT): Unit = {
    answer = result.asInstanceOf[AnyRef]
    kind = OneRow
  }

  /** The rows that it was given; only for an entry that has them. */
  private[async] final def results: util.Collection[OUT] =
    if (kind == Rows) answer.asInstanceOf[util.Collection[OUT]]
    else util.Collections.singletonList(answer.asInstanceOf[OUT])

  private[async] final def emitTo(output: AsyncOutput[IN, OUT]): Unit =
    if (kind == Rows) output.emit(input, timestampMs, answer.asInstanceOf[util.Collection[OUT]])
    else output.emitOne(input, timestampMs, answer.asInstanceOf[OUT])
}

private[pillarbox] object StreamElementQueueEntry {
  private final val Open: Byte = 0
  private final val Rows: Byte = 1
  private final val OneRow: Byte = 2
}
