package io.pillarbox.spark.async.python

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.{List => JList}

import io.pillarbox.metered.journal.{CallKey, CallTicket}
import io.pillarbox.spark.worker.{ArrowBatchWriter, Frame, FrameSize}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow

/** @param round how many tickets of its row were given up before, each of which had an id of its own */
private[pillarbox] final case class PythonCall(
    elementId: Long,
    attempt: Int,
    row: InternalRow,
    round: Int = 0
)

/**
 * Turns calls into the bodies of CALLS and GROUP frames. Single-threaded; off-heap memory until `close`.
 *
 * @param view the columns of a row that are sent
 * @param nameOf names the call of a row with its number
 */
private[pillarbox] final class CallEncoder(
    schema: Schema,
    view: InternalRow => InternalRow,
    nameOf: (InternalRow, Long) => CallKey,
    size: FrameSize = FrameSize.of(null)
) extends AutoCloseable {
  private val writer = new ArrowBatchWriter(schema, size)

  /**
   * Passes ids, attempts and rows as Arrow record batches to `send`, in as many bodies as they need.
   *
   * @param send takes a body, valid until it returns, and whether it is the last one
   * @param refuse takes a call whose row is too large for any frame, with its bytes
   */
  def encode(
      calls: JList[PythonCall],
      send: (Seq[ByteBuffer], Boolean) => Unit,
      refuse: (PythonCall, Long) => Unit
  ): Unit = {
    var first = 0
    var next = 0
    while (next < calls.size) {
      val call = calls.get(next)
      if (writer.isFull || writer.isFullFor(ArrowBatchWriter.bytesOf(call.row))) {
        send(body(calls.subList(first, next)), false)
        first = next
      }
      val tooLarge = add(call)
      if (tooLarge == 0) next += 1
      else if (next > first) {
        // The refused row has emptied the batch.
        calls.subList(first, next).forEach(add(_): Unit)
        send(body(calls.subList(first, next)), false)
        first = next
      } else {
        refuse(call, tooLarge)
        next += 1
        first = next
      }
    }
    if (first < calls.size || first > 0) send(body(calls.subList(first, calls.size)), true)
  }

  private def add(call: PythonCall): Long = writer.write(view(call.row), ArrowBatchWriter.bytesOf(call.row))

  private def body(calls: JList[PythonCall]): Seq[ByteBuffer] = begin(calls) ++ writer.finishCheaply()

  private def begin(calls: JList[PythonCall]): Seq[ByteBuffer] =
    Seq(CallEncoder.header(calls), CallEncoder.names(calls, nameOf))

  /** Returns the body of a COLLECT frame: who asks, then their places, and the ticket with its number of rows. */
  def collection(calls: JList[PythonCall], tickets: JList[CallTicket]): Seq[ByteBuffer] = {
    val text = tickets.get(0).text.getBytes(UTF_8)
    val end = Frame.buffer(4 * tickets.size + 8 + text.length)
    tickets.forEach(ticket => end.putInt(ticket.place): Unit)
    end.putInt(tickets.get(0).of).putInt(text.length).put(text)
    begin(calls) :+ end.flip()
  }

  override def close(): Unit = writer.close()
}

private[pillarbox] object CallEncoder {

  /** The names of the calls, 16 bytes for each, in the order of their hexadecimal digits. */
  private def names(calls: JList[PythonCall], nameOf: (InternalRow, Long) => CallKey): ByteBuffer = {
    val names = ByteBuffer.allocate(16 * calls.size)
    calls.forEach { call =>
      val key = nameOf(call.row, call.elementId).ofRound(call.round)
      names.putLong(key.high).putLong(key.low): Unit
    }
    names.flip()
  }

  /** The ids and attempts of calls, as CALLS, GROUP and CANCEL frames begin. */
  def header(calls: JList[PythonCall]): ByteBuffer = {
    val header = Frame.buffer(4 + 12 * calls.size)
    header.putInt(calls.size)
    calls.forEach(call => header.putLong(call.elementId))
    calls.forEach(call => header.putInt(call.attempt))
    header.flip()
  }
}
