package io.pillarbox.spark.journal

import scala.jdk.CollectionConverters._

import io.pillarbox.metered.journal.StoredAnswer
import io.pillarbox.spark.async.{AnswerCodec, OperatorColumns}
import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.task.ReportedException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeRow}
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/**
 * The answers to one operator as rows. Single-threaded; rows share the bytes of the answer.
 *
 * @param columns those of the rows, by the names of [[JournalTable]]
 */
private final class AnswerLayout(operator: OperatorColumns, columns: StructType) {
  import JournalTable._

  private val codec = new AnswerCodec(operator.returns, operator.returns)
  private val name = UTF8String.fromString(operator.name)
  private val version = operator.version.map(UTF8String.fromString).orNull
  private val hasAnswer = columns.fieldNames.contains(Answer)
  private val asKey = arranged(operator.key, Key)
  private val asAnswer = arranged(operator.returns, Answer)

  /** One row; or if the answer is asked for, one for each of its rows, and one with null if it has none. */
  def rows(answer: StoredAnswer, segment: String): Iterator[InternalRow] = {
    val found =
      if (hasAnswer) codec.decode(answer.payload).asScala.iterator else Iterator.empty[InternalRow]
    if (found.isEmpty) Iterator.single(row(answer, segment, null))
    else found.map(one => row(answer, segment, asAnswer(one)))
  }

  private def row(answer: StoredAnswer, segment: String, value: InternalRow): InternalRow = {
    val values = columns.fields.map { column =>
      column.name match {
        case Name => name
        case Version => version
        case CallId => UTF8String.fromString(answer.call.toString)
        case WrittenAt => answer.writtenMs * 1000L
        case Attempts => answer.cost.attempts
        case Usage => usageOf(answer)
        case Key => asKey(keyOf(answer))
        case Answer => value
        case Segment => UTF8String.fromString(segment)
        case Offset => answer.offset
      }
    }
    new GenericInternalRow(values.toArray[Any])
  }

  private def usageOf(answer: StoredAnswer): ArrayBasedMapData = {
    val (units, amounts) = answer.cost.usage.unzip
    ArrayBasedMapData(units.map(UTF8String.fromString).toArray[Any], amounts.toArray[Any])
  }

  private def keyOf(answer: StoredAnswer): InternalRow = {
    val row = new UnsafeRow(operator.key.length)
    val bytes = answer.call.values
    row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET.toLong, bytes.length)
    row
  }

  /** The place of the column in `own`, below 0 for none. The types differ if it was added later. */
  private def placeOf(column: StructField, own: StructType): Int = {
    val at = own.fieldNames.indexOf(column.name)
    val found = if (at < 0) column.dataType else SparkAdapter.asNullable(own(at).dataType)
    if (found != column.dataType) {
      val types = s"${column.dataType.catalogString} and ${found.catalogString}"
      val told = Seq("name" -> operator.name, "column" -> column.name, "types" -> types)
      throw new ReportedException(FailureReport.of("JOURNAL_COLUMNS_DIFFER", "", told: _*))
    }
    at
  }

  /** Gives a row of the operator the columns of the table, with nulls where it has none. */
  private def arranged(own: StructType, column: String): InternalRow => InternalRow =
    columns.find(_.name == column).map(_.dataType) match {
      case Some(struct: StructType) if struct != SparkAdapter.asNullable(own) =>
        val ordinals = struct.map(field => placeOf(field, own))
        row => {
          val values = ordinals.map(at => if (at < 0) null else row.get(at, own(at).dataType))
          new GenericInternalRow(values.toArray[Any])
        }
      case _ => identity
    }
}
