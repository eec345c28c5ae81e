package io.pillarbox.spark.keyed

import java.util.ArrayDeque

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * The rows that a task has ready to emit, in order. Mailbox thread only.
 *
 * @param late the layout of an output that has late rows, too; else null
 */
private final class ReadyRows(late: LateOutput = null) {

  /** Rows that are made one at a time, when they are asked for; they come before those of `queue`. */
  private var lazily: Iterator[UnsafeRow] = Iterator.empty
  private val queue = new ArrayDeque[InternalRow]
  private var dropsNew = false

  def isEmpty: Boolean = queue.isEmpty && !lazily.hasNext

  /** Adds a row; one that can change is copied. */
  def add(row: InternalRow): Unit = if (!dropsNew) laidOut(row) match {
    case unsafe: UnsafeRow => queue.add(unsafe.copy())
    case other => queue.add(other)
  }

  /** Adds a row of the input. */
  def addLate(row: UnsafeRow): Unit = if (!dropsNew) queue.add(late.ofInput(row).copy()): Unit

  private def laidOut(row: InternalRow): InternalRow = if (late == null) row else late.ofFunction(row)

  /** Adds rows that may be one object, changed for each. Their source must last until [[settle]]. */
  def addAll(rows: Iterator[UnsafeRow]): Unit = {
    settle()
    if (!dropsNew) if (queue.isEmpty && late == null) lazily = rows else rows.foreach(add)
  }

  /** Drops all rows that are added from now on, since nobody asks for them. */
  def dropNew(): Unit = dropsNew = true

  /** Makes all rows that aren't made yet. */
  def settle(): Unit = {
    val rows = lazily
    lazily = Iterator.empty
    rows.foreach(row => queue.add(row.copy()))
  }

  /** Returns the next row, valid until the next call; null if there is none. */
  def poll(): InternalRow = if (lazily.hasNext) lazily.next() else queue.poll()
}
