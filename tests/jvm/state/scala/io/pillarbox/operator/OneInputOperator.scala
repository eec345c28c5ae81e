package io.pillarbox.operator

/**
 * An operator with one input, as whoever drives it sees it. All calls on the mailbox thread, in this order:
 * `restore` at most once, `open`, then rows, watermarks and snapshots, `endInput` at most once, `close`.
 */
trait OneInputOperator[IN, OUT] extends AutoCloseable {

  /** @param output takes what the operator emits from now on */
  def open(output: Output[OUT]): Unit

  /** @param timestamp in milliseconds since 1970, [[Output.NoTimestamp]] if the row has none */
  def processElement(value: IN, timestamp: Long): Unit

  /** No row up to `timestamp` follows. */
  def processWatermark(timestamp: Long): Unit

  /** No row follows at all. */
  def endInput(): Unit

  /** All that is needed to go on from here elsewhere. */
  def snapshot(): OperatorSnapshot

  /** Goes on from a snapshot that an operator of the same kind took. */
  def restore(snapshot: OperatorSnapshot): Unit
}

/**
 * The state and the timers of an operator, in the portable formats of the two.
 *
 * @param watermark
 *   that the operator had seen
 */
final case class OperatorSnapshot(state: Array[Byte], timers: Array[Byte], watermark: Long)
