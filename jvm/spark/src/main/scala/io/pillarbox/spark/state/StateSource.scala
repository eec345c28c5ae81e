package io.pillarbox.spark.state

import io.pillarbox.spark.task.MailboxResource
import org.apache.spark.sql.types.StructType

/** Opens and commits the state of a task. Inside the operator's mailbox. */
private[pillarbox] trait StateSource extends MailboxResource {

  /** Returns the state as the last committed micro-batch has left it. */
  def open(): PartitionState

  /** Makes the changes durable, as the next version. */
  def commit(): Unit

  /** Closes the state, if it was opened, unless it was committed and can be used again. */
  override def close(): Unit
}

/** The state of a batch: empty at first, gone at the end. */
private[pillarbox] final class BatchStateSource(keySchema: StructType) extends StateSource {
  private var state: PartitionState = _

  override def open(): PartitionState = {
    state = StateBackends.forBatch(keySchema)
    state
  }

  override def commit(): Unit = ()

  override def close(): Unit = if (state != null) state.close()
}
