package io.pillarbox.spark.async

import io.pillarbox.metered.journal.{CallCost, CallKey, CallTicket, TicketJournal}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * A task's tickets, in the journal that has its answers, as the answers of an operator of their own. A ticket
 * outlives the process when `flush` returns, also on an object store, whose file is closed for that. Mailbox
 * thread only.
 */
private[async] final class TaskTickets(task: AsyncIOTaskSpec, folder: JournalFolder)
    extends TicketJournal
    with AutoCloseable {
  import TaskTickets._

  private val codec = new AnswerCodec(Layout, Layout)
  private val folderOf = new HeldFolder(task, folder, JournalOperators.ofTickets(task))
  import folderOf.{held, reading, writing}
  private var isChanged = false

  override def find(key: CallKey): CallTicket = {
    val bytes = reading(held.find(key))
    if (bytes == null) null else ticketOf(codec.decode(bytes).iterator.next())
  }

  private def ticketOf(row: InternalRow): CallTicket = CallTicket(
    if (row.isNullAt(0)) null else row.getUTF8String(0).toString,
    row.getInt(1),
    row.getInt(2),
    row.getInt(3)
  )

  override def keep(key: CallKey, ticket: CallTicket): Unit = {
    val text = UTF8String.fromString(ticket.text)
    val row: InternalRow = new GenericInternalRow(Array[Any](text, ticket.place, ticket.of, ticket.round))
    codec.encode(java.util.Collections.singletonList(row))
    held.add(key, NoCost, codec.bytes, codec.length)
    isChanged = true
  }

  override def flush(): Unit = if (isChanged) writing {
    isChanged = false
    held.flush()
    held.settle()
  }

  override def close(): Unit = writing(held.close())
}

private[async] object TaskTickets {

  /** What is kept of a ticket, which is null once it was given up. */
  val Layout: StructType = new StructType()
    .add("ticket", StringType)
    .add("place", IntegerType)
    .add("of", IntegerType)
    .add("round", IntegerType)

  private val NoCost = CallCost(0)
}
