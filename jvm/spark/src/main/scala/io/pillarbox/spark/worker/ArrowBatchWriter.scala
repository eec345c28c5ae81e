package io.pillarbox.spark.worker

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.channels.{Channels, WritableByteChannel}

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.ipc.WriteChannel
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.arrow.vector.util.OversizedAllocationException
import org.apache.arrow.vector.{VectorSchemaRoot, VectorUnloader}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.arrow.ArrowWriter
import org.apache.spark.sql.pillarbox.SparkAdapter

/** Writes rows as Arrow record batch messages of bounded size. Single-threaded; off-heap until `close`. */
private[pillarbox] final class ArrowBatchWriter(
    val schema: Schema,
    size: FrameSize = FrameSize.of(TaskContext.get())
) extends AutoCloseable {
  private val allocator = SparkAdapter.arrowAllocator("pillarbox writer")
  private var root: VectorSchemaRoot = _
  private var writer: ArrowWriter = _
  private var unloader: VectorUnloader = _
  private val bytes = new ExposedBytes
  private var count = 0

  /** Bytes of the rows up to `measuredRows` in Arrow, and of the later ones in Spark. */
  private var gathered = 0L
  private var unmeasured = 0L
  private var measuredRows = 0

  /** True if the rows in memory are those of the last message. */
  private var isFinished = false
  allocate()

  private def allocate(): Unit = {
    root = VectorSchemaRoot.create(schema, allocator)
    writer = ArrowWriter.create(root)
    unloader = new VectorUnloader(root)
  }

  /** The number of rows gathered so far. */
  def rows: Int = count

  /**
   * Copies the row's values. Rows gathered before are sent ahead as a separate message if they are large.
   *
   * @param ahead takes the number of rows of such a message, and the message, valid until it returns
   * @param tooLarge
   *   makes the error for a row that is too large for any message, from its bytes and the bounds
   */
  def writeBounded(row: InternalRow, rowBytes: Long, ahead: (Int, Seq[ByteBuffer]) => Unit)(
      tooLarge: (Long, FrameSize) => Throwable
  ): Unit = {
    if (isFull || isFullFor(rowBytes)) ahead(count, finishParts())
    val found = write(row, rowBytes)
    if (found > 0) throw tooLarge(found, size)
  }

  /** True if a row of so many bytes should begin a new message. */
  def isFullFor(rowBytes: Long): Boolean = count > 0 && bytesGathered + rowBytes > size.cut

  /** True if the gathered rows are worth a message. */
  def isFull: Boolean = count > 0 && bytesGathered >= size.cut

  private def bytesGathered: Long = gathered + unmeasured

  /**
   * Copies the row's values.
   *
   * @param rowBytes its bytes in Spark, 0 if unknown
   * @return 0, or the bytes of a row that is too large for any message: then all gathered rows are dropped,
   *   too; there are none if they were sent where [[isFullFor]] is true and `rowBytes` is known
   */
  def write(row: InternalRow, rowBytes: Long): Long = {
    if (isFinished) reset()
    val isTaken =
      try { writer.write(row); true }
      catch { case _: OversizedAllocationException => false }
    count += 1
    unmeasured += rowBytes
    if (!isTaken) refuse(unmeasured)
    else {
      if (
        rowBytes == 0 || unmeasured >= ArrowBatchWriter.MeasureBytes ||
        count - measuredRows >= ArrowBatchWriter.MeasureRows || bytesGathered > size.most
      ) measure()
      if (gathered > size.most) refuse(gathered) else 0L
    }
  }

  private def measure(): Unit = {
    gathered = root.getFieldVectors.asScala.foldLeft(0L) { (bytes, column) =>
      // Arrow knows a size once it knows the number of values. Not all releases have ArrowWriter.sizeInBytes.
      column.setValueCount(count)
      bytes + column.getBufferSizeFor(count)
    }
    unmeasured = 0L
    measuredRows = count
  }

  private def refuse(rowBytes: Long): Long = {
    startAnew()
    math.max(rowBytes, size.most + 1)
  }

  /** Returns the gathered rows' message in one heap buffer, and starts anew. Valid until the next call. */
  def finish(): ByteBuffer = {
    bytes.reset()
    serialize(Channels.newChannel(bytes))
    bytes.view
  }

  /**
   * Returns the message with the gathered rows as the memory in which they lie, without a copy, and starts
   * anew; none if there are no rows. Valid until the next call.
   */
  def finishParts(): Seq[ByteBuffer] = if (count == 0) Nil
  else {
    val parts = new GatheredBuffers
    serialize(parts)
    parts.result
  }

  /** Returns small messages as `finish` does, and large ones as `finishParts` does. */
  def finishCheaply(): Seq[ByteBuffer] =
    if (bytesGathered < ArrowBatchWriter.MeasureBytes) Seq(finish()) else finishParts()

  private def serialize(out: WritableByteChannel): Unit = {
    if (isFinished) reset()
    writer.finish()
    val batch = unloader.getRecordBatch
    try MessageSerializer.serialize(new WriteChannel(out), batch)
    finally batch.close()
    isFinished = true
    count = 0
  }

  /** Drops the sent rows, and buffers that one large row has enlarged, since each reset clears them all. */
  private def reset(): Unit =
    if (gathered + unmeasured > 2 * size.cut) startAnew()
    else {
      writer.reset()
      begin()
    }

  private def startAnew(): Unit = {
    root.close()
    allocate()
    count = 0
    begin()
  }

  private def begin(): Unit = {
    isFinished = false
    gathered = 0L
    unmeasured = 0L
    measuredRows = 0
  }

  override def close(): Unit = {
    root.close()
    allocator.close()
  }
}

private[pillarbox] object ArrowBatchWriter {

  /** Rows between two measurements, which look at each column; nulls may take more in Arrow than in Spark. */
  private final val MeasureRows = 64
  private final val MeasureBytes = 1L << 20

  /** The bytes that Spark takes for a row, 0 if unknown. */
  def bytesOf(row: InternalRow): Long = row match {
    case unsafe: UnsafeRow => unsafe.getSizeInBytes.toLong
    case _ => 0L
  }
}

/** A byte stream whose array can be written out without a copy. */
private final class ExposedBytes extends ByteArrayOutputStream(1 << 14) {
  def view: ByteBuffer = ByteBuffer.wrap(buf, 0, count)
}

/** Collects what is written to it. Copies no off-heap memory, where the columns are; the rest is small. */
private final class GatheredBuffers extends WritableByteChannel {
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
