package io.pillarbox.spark.keyed

import io.pillarbox.mailbox.InputStatus
import io.pillarbox.operator.{Output, Rows}
import io.pillarbox.spark.task.OperatorInput
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}

/**
 * The rows of a task that its operator gets, with their event times. Mailbox thread only.
 *
 * In real-time mode they come in rounds: a round ends where no row has come yet, or with its last row, so
 * that timers fire between the rows of an input that never pauses. The first round takes no row, so that the
 * timers that are due when the micro-batch begins fire before its rows.
 */
private final class InputRows(
    input: OperatorInput,
    late: LateRows,
    watch: KeyWatch,
    task: KeyedTaskSpec
) extends Rows[UnsafeRow] {
  private lazy val toUnsafe = UnsafeProjection.create(task.inputSchema)
  private val timestampOrdinal = task.timestampOrdinal
  private val isSorted = task.spec.timeSorted
  private var current: UnsafeRow = _
  private var timestamp = Output.NoTimestamp
  private var rowsLeft = if (task.isRealTime) 0L else Long.MaxValue
  private var awaits = false
  private var over = false

  /** The row after the current one, or null. */
  private var next: UnsafeRow = _

  /** Treats the next row if it is one that the operator does not get; returns false if there is none. */
  def skipLate(): Boolean = late.skipsAny && {
    fetch()
    val skips = next != null && late.skips(next)
    if (skips) next = null
    skips
  }

  /** Goes on to the next row. Before it, [[skipLate]] has returned false. */
  override def advance(): Boolean = {
    fetch()
    val has = next != null
    if (has) {
      current = late.marked(next)
      next = null
      timestamp = timeOf(current)
      watch.take(current)
    }
    has
  }

  private def fetch(): Unit =
    if (next == null && !over && !awaits && rowsLeft > 0) input.poll() match {
      case InputStatus.MoreAvailable =>
        next = unsafe(input.next())
        rowsLeft -= 1
      case InputStatus.NothingAvailable => awaits = true
      case InputStatus.EndOfData => over = true
    }

  /** True once the input has ended. */
  def isOver: Boolean = over

  /** True if the round has taken all rows that had come. */
  def isAwaiting: Boolean = awaits

  /** Begins the next round of real-time mode. */
  def nextRound(): Unit = {
    awaits = false
    rowsLeft = InputRows.RowsOfRound
  }

  override def row: UnsafeRow = current

  override def time: Long = timestamp

  private def unsafe(row: InternalRow): UnsafeRow = row match {
    case unsafe: UnsafeRow => unsafe
    case other => toUnsafe(other)
  }

  /**
   * Returns the row's event time in milliseconds. Times of time-sorted rows are rounded up: so a row comes
   * before a timer exactly if its time in microseconds is not after that of the timer, and is not due before
   * the watermark has reached it.
   *
   * @throws RuntimeException (TIMESTAMP_MISSING) if a row that has to be sorted has none
   */
  def timeOf(row: UnsafeRow): Long =
    if (timestampOrdinal < 0 || row.isNullAt(timestampOrdinal)) {
      if (isSorted) throw withoutTime(row)
      Output.NoTimestamp
    } else if (isSorted) -Math.floorDiv(-row.getLong(timestampOrdinal), InputRows.MicrosPerMs)
    else Math.floorDiv(row.getLong(timestampOrdinal), InputRows.MicrosPerMs)

  private def withoutTime(row: UnsafeRow): RuntimeException = {
    val shown = s"Row(${task.text.row(row, task.inputSchema)})"
    val column = task.timestamp.fold("the time")(_.name)
    KeyedErrors.named("TIMESTAMP_MISSING", task.spec.name, "column" -> column, "row" -> shown)
  }
}

private object InputRows {
  final val MicrosPerMs = 1000L

  /** As many as one thread reads ahead of the other. */
  private final val RowsOfRound = 256L
}
