package io.pillarbox.spark.python

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.channels.Channels
import java.util.{List => JList}

import org.apache.arrow.vector.ipc.WriteChannel
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.arrow.vector.{VectorSchemaRoot, VectorUnloader}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.pillarbox.SparkAdapter

/** One call on its way to the worker. */
final case class PythonCall(elementId: Long, attempt: Int, row: InternalRow)

/**
 * Turns calls into the bodies of CALLS and GROUP frames. One thread only; holds off-heap memory until `close`.
 *
 * @param view
 *   the columns of a row that are sent
 */
final class CallEncoder(schema: Schema, view: InternalRow => InternalRow) extends AutoCloseable {
  private val allocator = SparkAdapter.arrowAllocator("pillarbox calls")
  private val root = VectorSchemaRoot.create(schema, allocator)
  private val writer = ArrowWriter.create(root)
  private val unloader = new VectorUnloader(root)
  private val bytes = new ExposedBytes

  /** Ids, attempts and the rows as one Arrow record batch. The buffers are valid until the next call. */
  def encode(calls: JList[PythonCall]): Array[ByteBuffer] = {
    writer.reset()
    calls.forEach(call => writer.write(view(call.row)))
    writer.finish()
    bytes.reset()
    val batch = unloader.getRecordBatch
    try MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), batch)
    finally batch.close()
    Array(CallEncoder.header(calls), bytes.view)
  }

  override def close(): Unit = {
    root.close()
    allocator.close()
  }
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

/** A byte stream whose array can be written out without a copy. */
final private class ExposedBytes extends ByteArrayOutputStream(1 << 14) {
  def view: ByteBuffer = ByteBuffer.wrap(buf, 0, count)
}
