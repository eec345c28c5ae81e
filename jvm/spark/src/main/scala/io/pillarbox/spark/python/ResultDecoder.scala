package io.pillarbox.spark.python

import java.io.ByteArrayInputStream
import java.nio.channels.Channels

import scala.jdk.CollectionConverters._

import org.apache.arrow.vector.ipc.ReadChannel
import org.apache.arrow.vector.ipc.message.MessageSerializer
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.arrow.vector.{VectorLoader, VectorSchemaRoot}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Literal, UnsafeProjection}
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.vectorized.{ArrowColumnVector, ColumnVector, ColumnarBatch}

/** The answers of one RESULTS frame, element by element: `counts(i)` rows each, -1 for "no match". */
final class CallResults(
    val elementIds: Array[Long],
    val attempts: Array[Int],
    val counts: Array[Int],
    val rows: Array[InternalRow]
)

/**
 * Turns the bodies of RESULTS frames into rows that own their bytes. One thread only; off-heap until `close`.
 *
 * @param schema
 *   of the rows; columns that Arrow does not bring are null
 */
final class ResultDecoder(arrowSchema: Schema, schema: StructType) extends AutoCloseable {
  private val allocator = SparkAdapter.arrowAllocator("pillarbox results")
  private val root = VectorSchemaRoot.create(arrowSchema, allocator)
  private val loader = new VectorLoader(root)
  private val columns: Array[ColumnVector] =
    root.getFieldVectors.asScala.map(vector => new ArrowColumnVector(vector)).toArray
  private val toUnsafe = UnsafeProjection.create(schema.fields.toSeq.zipWithIndex.map { case (field, i) =>
    if (i < columns.length) BoundReference(i, field.dataType, nullable = true)
    else Literal(null, field.dataType)
  })

  def decode(frame: Frame): CallResults = {
    val body = frame.body
    val n = body.getInt
    val ids = Array.fill(n)(body.getLong)
    val attempts = Array.fill(n)(body.getInt)
    val counts = Array.fill(n)(body.getInt)
    load(frame)
    new CallResults(ids, attempts, counts, copyRows())
  }

  private def load(frame: Frame): Unit = {
    val body = frame.body
    val in = new ByteArrayInputStream(body.array, body.arrayOffset + body.position(), body.remaining)
    val batch =
      MessageSerializer.deserializeRecordBatch(new ReadChannel(Channels.newChannel(in)), allocator)
    try loader.load(batch)
    finally batch.close()
  }

  private def copyRows(): Array[InternalRow] = {
    val batch = new ColumnarBatch(columns, root.getRowCount)
    val rows = new Array[InternalRow](root.getRowCount)
    var i = 0
    while (i < rows.length) {
      rows(i) = toUnsafe(batch.getRow(i)).copy()
      i += 1
    }
    rows
  }

  override def close(): Unit = {
    root.close()
    allocator.close()
  }
}
