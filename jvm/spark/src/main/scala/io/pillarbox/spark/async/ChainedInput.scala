package io.pillarbox.spark.async

import io.pillarbox.mailbox.InputStatus
import io.pillarbox.spark.task.OperatorInput
import org.apache.spark.sql.catalyst.InternalRow

/** Rows of the operator right below, in the same mailbox. */
private final class ChainedInput(operator: AsyncIOIterator) extends OperatorInput {
  override def awaitRow(): Boolean = operator.awaitRow()
  override def poll(): InputStatus = operator.poll()
  override def next(): InternalRow = operator.next().copy()
  override def onProgress(hook: Runnable): Unit = operator.onProgress(hook)
}
