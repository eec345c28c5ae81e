package io.pillarbox.spark.task

import java.lang.{Iterable => JIterable}
import java.math.{BigDecimal => JBigDecimal, BigInteger}
import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.base.PythonText
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types._

/**
 * Converts rows of a JVM function to Spark's, checking types and nulls. One thread at a time.
 *
 * @param columns the columns that the function's rows must have
 * @param text how errors show values
 * @param whole the columns of the rows that come out
 * @param complete makes such a row of one of the function's
 */
private[pillarbox] final class UserRows(
    columns: StructType,
    text: PythonText,
    whole: StructType,
    complete: Row => Row
) {
  private val serializer = ExpressionEncoder(whole, lenient = true).createSerializer()
  private val toScala = UserRows.toScala(columns)

  def this(columns: StructType, text: PythonText) = this(columns, text, columns, identity)

  /**
   * Returns the row, valid until the next call.
   *
   * @throws IllegalArgumentException with what does not fit
   */
  def toInternal(row: Row): InternalRow = {
    if (row == null)
      throw new IllegalArgumentException(
        s"The function answered with null instead of a row, but returns has: ${columns.toDDL}."
      )
    if (row.length != columns.length)
      throw new IllegalArgumentException(
        s"The function answered with a row of ${row.length} columns, but returns has ${columns.length}: " +
          s"${columns.toDDL}."
      )
    try serializer(complete(toScala(row).asInstanceOf[Row]))
    catch { case problem: RuntimeException => throw mismatch(row, problem) }
  }

  /** Spark's own message is the generated expression; what was wrong is in its cause. */
  private def mismatch(row: Row, problem: RuntimeException): IllegalArgumentException = {
    val reason = Option(problem.getCause).getOrElse(problem).getMessage
    val (shown, told) = (text.answer(row, columns), text.about(columns)(reason))
    new IllegalArgumentException(
      s"The function's answer ($shown) does not fit returns, ${columns.toDDL}: $told"
    )
  }
}

private object UserRows {

  /** Converts values in Java's rows that Spark's encoders refuse: maps, and whole numbers as decimals. */
  private def toScala(dataType: DataType): Any => Any = dataType match {
    case MapType(key, item, _) =>
      val (toKey, toItem) = (toScala(key), toScala(item))
      nullSafe {
        case map: JMap[_, _] => map.asScala.map { case (k, v) => toKey(k) -> toItem(v) }
        case map: Map[_, _] => map.map { case (k, v) => toKey(k) -> toItem(v) }
      }
    case ArrayType(element, _) if needsHelp(element) =>
      val toElement = toScala(element)
      nullSafe {
        case list: JIterable[_] => list.asScala.map(toElement).toSeq
        case list: Iterable[_] => list.map(toElement).toSeq
        case array: Array[_] => array.toSeq.map(toElement)
      }
    case struct: StructType if needsHelp(struct) =>
      val toFields = struct.fields.map(field => toScala(field.dataType))
      nullSafe { case row: Row => Row.fromSeq(row.toSeq.zip(toFields).map { case (v, to) => to(v) }) }
    case _: DecimalType => nullSafe { case whole: BigInteger => new JBigDecimal(whole) }
    case _ => identity
  }

  private def needsHelp(dataType: DataType): Boolean =
    SparkAdapter.contains(dataType)(part => part.isInstanceOf[MapType] || part.isInstanceOf[DecimalType])

  /** Returns a value that `convert` does not know as it is: the encoder reports it. */
  private def nullSafe(convert: PartialFunction[Any, Any]): Any => Any = convert.applyOrElse(_, identity[Any])
}
