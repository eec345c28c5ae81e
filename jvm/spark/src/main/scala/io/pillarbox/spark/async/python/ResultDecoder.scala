package io.pillarbox.spark.async.python

import scala.util.control.NonFatal

import io.pillarbox.spark.task.Projections
import io.pillarbox.spark.worker.{ArrowBatchReader, Frame}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Literal}
import org.apache.spark.sql.types.StructType

/**
 * The answers of one RESULTS frame, element by element: `counts(i)` rows each, -1 for "no match".
 *
 * @param unreadable for each row the reason why it could not be read, or null; null if all could be read
 */
private[pillarbox] final class CallResults(
    val elementIds: Array[Long],
    val attempts: Array[Int],
    val counts: Array[Int],
    val rows: Array[InternalRow],
    unreadable: Array[Throwable] = null
) {

  /** The reason why one of `count` rows from `from` on can't be read, or null. */
  def problem(from: Int, count: Int): Throwable =
    if (unreadable == null || count <= 0) null
    else unreadable.slice(from, from + count).find(_ != null).orNull
}

/**
 * Turns RESULTS frames into rows that own their bytes. Single-threaded; off-heap memory until `close`.
 *
 * @param schema the columns of the rows; those that Arrow does not bring are null
 * @param lending names the run whose tasks lend each other their projections, if there is one
 */
private[pillarbox] final class ResultDecoder(
    arrowSchema: Schema,
    schema: StructType,
    lending: Option[String] = None
) extends AutoCloseable {
  private val reader = new ArrowBatchReader(arrowSchema)
  private val projections = new Projections(lending)
  private val toUnsafe = projections.of(schema.fields.toSeq.zipWithIndex.map { case (field, i) =>
    if (i < reader.width) BoundReference(i, field.dataType, nullable = true)
    else Literal(null, field.dataType)
  })

  def decode(frame: Frame): CallResults = {
    val body = frame.body
    val n = body.getInt
    val ids = Array.fill(n)(body.getLong)
    val attempts = Array.fill(n)(body.getInt)
    val counts = Array.fill(n)(body.getInt)
    val batch = reader.read(body)
    val rows = new Array[InternalRow](batch.numRows)
    var unreadable: Array[Throwable] = null
    var i = 0
    while (i < rows.length) {
      try rows(i) = toUnsafe(batch.getRow(i)).copy()
      catch {
        // Python can't check all that Spark demands of a value, such as a geometry's bytes.
        case NonFatal(problem) =>
          if (unreadable == null) unreadable = new Array(rows.length)
          unreadable(i) = problem
      }
      i += 1
    }
    new CallResults(ids, attempts, counts, rows, unreadable)
  }

  override def close(): Unit = {
    projections.giveBack()
    reader.close()
  }
}
