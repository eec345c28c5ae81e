package io.pillarbox.spark.worker

import java.io.ByteArrayInputStream
import java.nio.ByteBuffer
import java.nio.channels.Channels

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.ipc.ReadChannel
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.arrow.vector.{VectorLoader, VectorSchemaRoot}
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch}

/** Reads Arrow record batch messages of one schema. Single-threaded; holds off-heap memory until `close`. */
private[pillarbox] final class ArrowBatchReader(schema: Schema) extends AutoCloseable {
  private val allocator = SparkAdapter.arrowAllocator("pillarbox reader")
  private val root = VectorSchemaRoot.create(schema, allocator)
  private val loader = new VectorLoader(root)
  private val columns: Array[ColumnVector] =
    root.getFieldVectors.asScala.map(vector => new ArrowColumnVector(vector)).toArray

  def width: Int = columns.length

  /** Reads the batch in the rest of `message`, an array-backed buffer. Valid until the next call. */
  def read(message: ByteBuffer): ColumnarBatch = {
    val in =
      new ByteArrayInputStream(message.array, message.arrayOffset + message.position(), message.remaining)
    val batch = MessageSerializer.deserializeRecordBatch(new ReadChannel(Channels.newChannel(in)), allocator)
    try loader.load(batch)
    finally batch.close()
    new ColumnarBatch(columns, root.getRowCount)
  }

  override def close(): Unit = {
    root.close()
    allocator.close()
  }
}
