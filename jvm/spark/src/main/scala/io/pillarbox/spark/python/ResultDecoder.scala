package io.pillarbox.spark.python

import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Literal, UnsafeProjection}
import org.apache.spark.sql.types.StructType

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
  private val reader = new ArrowBatchReader(arrowSchema)
  private val toUnsafe = UnsafeProjection.create(schema.fields.toSeq.zipWithIndex.map { case (field, i) =>
    if (i < reader.width) BoundReference(i, field.dataType, nullable = true)
    else Literal(null, field.dataType)
  })

  def decode(frame: Frame): CallResults = {
    val body = frame.body
    val n = body.getInt
    val ids = Array.fill(n)(body.getLong)
    val attempts = Array.fill(n)(body.getInt)
    val counts = Array.fill(n)(body.getInt)
    new CallResults(ids, attempts, counts, rows(frame))
  }

  private def rows(frame: Frame): Array[InternalRow] = {
    val batch = reader.read(frame.body)
    val rows = new Array[InternalRow](batch.numRows)
    var i = 0
    while (i < rows.length) {
      rows(i) = toUnsafe(batch.getRow(i)).copy()
      i += 1
    }
    rows
  }

  override def close(): Unit = reader.close()
}
