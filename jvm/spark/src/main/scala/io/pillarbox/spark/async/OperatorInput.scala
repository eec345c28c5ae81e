package io.pillarbox.spark.async

import io.pillarbox.mailbox.InputStatus
import org.apache.spark.sql.catalyst.InternalRow

/** The source of an operator's rows. Inside the operator's lane. */
private[async] trait OperatorInput {

  /** Waits until there is a row; false if none follows. */
  def awaitRow(): Boolean

  /** Does what can be done without waiting, until there is a row, and returns where that has led. */
  def poll(): InputStatus

  /** Returns the row that there is. It stays valid. */
  def next(): InternalRow

  /** Sets what runs, on this thread, when another `poll` may find more. */
  def onProgress(hook: Runnable): Unit
}

private[async] object OperatorInput {

  /** Rows that the operator's own thread reads, and waits for: `poll` waits too. */
  final class Waiting(rows: Iterator[InternalRow]) extends OperatorInput {
    override def awaitRow(): Boolean = rows.hasNext
    override def poll(): InputStatus = if (rows.hasNext) InputStatus.MoreAvailable else InputStatus.EndOfData
    override def next(): InternalRow = rows.next().copy()
    override def onProgress(hook: Runnable): Unit = ()
  }

  /** Rows of the operator right below, in the same lane. */
  final class Chained(operator: AsyncIOIterator) extends OperatorInput {
    override def awaitRow(): Boolean = operator.awaitRow()
    override def poll(): InputStatus = operator.poll()
    override def next(): InternalRow = operator.next().copy()
    override def onProgress(hook: Runnable): Unit = operator.onProgress(hook)
  }
}
