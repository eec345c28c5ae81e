package io.pillarbox.spark.python

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.channels.Channels
import java.util.{List => JList}

import org.apache.arrow.vector.ipc.WriteChannel
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow

/** One call on its way to the worker. */
final case class PythonCall(elementId: Long, attempt: Int, row: InternalRow)

/**
 * Turns calls into the bodies of CALLS and GROUP frames. One thread only; holds off-heap memory until `close`.
 *
 * @param view
 *   the columns of a row that are sent
 */
final class CallEncoder(schema: Schema, view: InternalRow => InternalRow) extends AutoCloseable {
  private val writer = new ArrowBatchWriter(schema)

  /** Ids, attempts and the rows as one Arrow record batch. The buffers are valid until the next call. */
  def encode(calls: JList[PythonCall]): Array[ByteBuffer] = {
    calls.forEach(call => writer.write(view(call.row)))
    Array(CallEncoder.header(calls), writer.finish())
  }

  override def close(): Unit = writer.close()
}

object CallEncoder {

  /** The ids and attempts of calls, as CALLS, GROUP and CANCEL frames begin. */
  def header(calls: JList[PythonCall]): ByteBuffer = {
    val header = Frame.buffer(4 + 12 * calls.size)
    header.putInt(calls.size)
    calls.forEach(call => header.putLong(call.elementId))
    calls.forEach(call => header.putInt(call.attempt))
    header.flip()
  }

  /** An Arrow IPC schema message, without the end-of-stream mark. */
  def schemaMessage(schema: Schema): Array[Byte] = {
    val bytes = new ByteArrayOutputStream
    MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), schema)
    bytes.toByteArray
  }
}
