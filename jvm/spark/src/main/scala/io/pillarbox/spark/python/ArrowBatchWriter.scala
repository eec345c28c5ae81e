package io.pillarbox.spark.python

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.channels.Channels

import org.apache.arrow.vector.ipc.WriteChannel
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.arrow.vector.{VectorSchemaRoot, VectorUnloader}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.pillarbox.SparkAdapter

/** Gathers rows and writes them as one Arrow record batch message. One thread only; off-heap memory until `close`. */
final class ArrowBatchWriter(val schema: Schema) extends AutoCloseable {
  private val allocator = SparkAdapter.arrowAllocator("pillarbox writer")
  private val root = VectorSchemaRoot.create(schema, allocator)
  private val writer = ArrowWriter.create(root)
  private val unloader = new VectorUnloader(root)
  private val bytes = new ExposedBytes
  private var count = 0

  /** Rows gathered so far. */
  def rows: Int = count

  /** Copies the row's values. */
  def write(row: InternalRow): Unit = {
    writer.write(row)
    count += 1
  }

  /** The message with the rows gathered; starts anew. The buffer is valid until the next call. */
  def finish(): ByteBuffer = {
    writer.finish()
    bytes.reset()
    val batch = unloader.getRecordBatch
    try MessageSerializer.serialize(new WriteChannel(Channels.newChannel(bytes)), batch)
    finally batch.close()
    writer.reset()
    count = 0
    bytes.view
  }

  override def close(): Unit = {
    root.close()
    allocator.close()
  }
}

/** A byte stream whose array can be written out without a copy. */
final private class ExposedBytes extends ByteArrayOutputStream(1 << 14) {
  def view: ByteBuffer = ByteBuffer.wrap(buf, 0, count)
}
