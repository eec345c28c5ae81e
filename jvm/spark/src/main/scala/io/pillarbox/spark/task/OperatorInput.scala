package io.pillarbox.spark.task

import io.pillarbox.mailbox.InputStatus
import org.apache.spark.sql.catalyst.InternalRow

/** The source of an operator's rows. Inside the operator's mailbox. */
private[pillarbox] trait OperatorInput {

  /** Waits until there is a row; false if none follows. */
  def awaitRow(): Boolean

  /** Does what can be done without waiting, until there is a row, and returns where that has led. */
  def poll(): InputStatus

  /** Returns the row that there is. */
  def next(): InternalRow

  /** Sets what runs, on this thread, when another `poll` may find more. */
  def onProgress(hook: Runnable): Unit
}

private[pillarbox] object OperatorInput {

  /**
   * Rows that the operator's own thread reads, and waits for: `poll` waits too. A row is valid until the next
   * question.
   */
  final class Waiting(rows: Iterator[InternalRow]) extends OperatorInput {
    override def awaitRow(): Boolean = rows.hasNext
    override def poll(): InputStatus = if (rows.hasNext) InputStatus.MoreAvailable else InputStatus.EndOfData
    override def next(): InternalRow = rows.next()
    override def onProgress(hook: Runnable): Unit = ()
  }
}
