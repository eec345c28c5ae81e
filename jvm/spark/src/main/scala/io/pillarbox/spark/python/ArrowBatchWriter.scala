package io.pillarbox.spark.python

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.channels.{Channels, WritableByteChannel}

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

  /** Whether the rows in memory are those of the last message. */
  private var isFinished = false

  /** Rows gathered so far. */
  def rows: Int = count

  /** Copies the row's values. */
  def write(row: InternalRow): Unit = {
    if (isFinished) reset()
    writer.write(row)
    count += 1
  }

  /** The message with the rows gathered, in one buffer on the heap; starts anew. Valid until the next call. */
  def finish(): ByteBuffer = {
    bytes.reset()
    serialize(Channels.newChannel(bytes))
    bytes.view
  }

  /**
   * The message with the rows gathered as the memory in which they lie, without a copy; none if there are no rows. Starts
   * anew. Valid until the next call.
   */
  def finishParts(): Seq[ByteBuffer] = if (count == 0) Nil
  else {
    val parts = new GatheredBuffers
    serialize(parts)
    parts.result
  }

  private def serialize(out: WritableByteChannel): Unit = {
    if (isFinished) reset()
    writer.finish()
    val batch = unloader.getRecordBatch
    try MessageSerializer.serialize(new WriteChannel(out), batch)
    finally batch.close()
    isFinished = true
    count = 0
  }

  private def reset(): Unit = {
    writer.reset()
    isFinished = false
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

/** Notes what is written to it. Off-heap memory, where the columns are, is not copied; the rest is small. */
final private class GatheredBuffers extends WritableByteChannel {
  private val parts = Seq.newBuilder[ByteBuffer]

  def result: Seq[ByteBuffer] = parts.result()

  override def write(source: ByteBuffer): Int = {
    val bytes = source.remaining
    parts += (if (source.isDirect) source.duplicate() else GatheredBuffers.copyOf(source))
    source.position(source.limit())
    bytes
  }

  override def isOpen: Boolean = true

  override def close(): Unit = ()
}

private object GatheredBuffers {
  private def copyOf(source: ByteBuffer): ByteBuffer =
    ByteBuffer.allocate(source.remaining).put(source.duplicate()).flip()
}
