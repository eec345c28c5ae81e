package io.pillarbox.spark.base

import java.math.{BigDecimal => JBigDecimal}
import java.time.{Instant, LocalDate, LocalDateTime, ZoneId, ZoneOffset}

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.VariantVal

/**
 * Shows rows in messages as Python shows them, whichever language the function is in. Any thread.
 *
 * `python/src/pillarbox/_base/values.py` has the same rules, and `tests/golden/rows.json` cases for both.
 *
 * @param show false hides all values
 * @param redaction a pattern; values of columns, fields and entries of maps in whose names it finds something
 *   are hidden
 */
private[pillarbox] final case class PythonText(show: Boolean, redaction: String) {
  import PythonText._

  @transient private lazy val pattern = redaction.r

  /** Returns `column=value, ...`, at most 200 characters. */
  def row(row: InternalRow, schema: StructType): String = if (show) cut(columns(row, schema)) else Hidden

  /** Returns a key: the value of a single column, else a Row. */
  def key(key: InternalRow, schema: StructType): String =
    if (!show) Hidden
    else cut(if (schema.length == 1) cell(key, 0, schema.head) else s"Row(${columns(key, schema)})")

  /** Returns the values of a row that a function of the JVM gave for `columns`, which need not fit them. */
  def answer(row: Row, columns: StructType): String = {
    val shown = columns.fields.zip(row.toSeq).map { case (field, value) =>
      about(StructType(Seq(field)))(String.valueOf(value))
    }
    if (show) shown.mkString(", ") else Hidden
  }

  /** Returns a text that may quote values of `columns`, or, if one of these is hidden, that it is. */
  def about(columns: StructType)(text: => String): String =
    if (show && !namesIn(columns).exists(hides)) text else Hidden

  /** Tells a worker what its errors show. */
  def addTo(init: ObjectNode): Unit =
    init.putObject("values").put("show", show).put("redaction", redaction): Unit

  private def hides(name: String): Boolean = pattern.findFirstIn(name).isDefined

  private def columns(row: InternalRow, schema: StructType): String =
    schema.fields.zipWithIndex
      .map { case (field, i) => s"${field.name}=${cell(row, i, field)}" }
      .mkString(", ")

  private def cell(row: InternalRow, at: Int, field: StructField): String =
    if (hides(field.name)) Hidden
    else of(if (row.isNullAt(at)) null else row.get(at, field.dataType), field.dataType)

  /** Shows a value; a message about a value must not fail itself. */
  private def of(value: Any, dataType: DataType): String =
    try nested(value, dataType)
    catch { case NonFatal(problem) => s"<${dataType.sql}: ${problem.getClass.getSimpleName}>" }

  private def nested(value: Any, dataType: DataType): String = (value, dataType) match {
    case (array: ArrayData, ArrayType(element, _)) => elements(array, element).mkString("[", ", ", "]")
    case (map: MapData, MapType(key, item, _)) =>
      val names = map.keyArray().toSeq[Any](key).map(String.valueOf)
      val pairs = elements(map.keyArray(), key).zip(elements(map.valueArray(), item))
      val entries = names.zip(pairs).map { case (name, (k, v)) =>
        s"$k: ${if (key.isInstanceOf[StringType] && hides(name)) Hidden else v}"
      }
      entries.mkString("{", ", ", "}")
    case (struct: InternalRow, fields: StructType) => s"Row(${columns(struct, fields)})"
    case (variant: VariantVal, _) if hides(variant.toString) => Hidden
    case _ => leaf(value, dataType)
  }

  private def elements(array: ArrayData, dataType: DataType): Seq[String] =
    (0 until array.numElements()).map(i =>
      of(if (array.isNullAt(i)) null else array.get(i, dataType), dataType)
    )
}

private[pillarbox] object PythonText {

  /** As Spark shows what its own redaction hides. */
  final val Hidden = "*********(redacted)"

  private final val LongestRow = 200
  private final val MicrosPerSecond = 1000000L
  private final val MicrosPerDay = 86400L * MicrosPerSecond

  private def cut(text: String): String =
    if (text.codePointCount(0, text.length) <= LongestRow) text
    else text.substring(0, text.offsetByCodePoints(0, LongestRow - 1)) + "…"

  /** The names of all fields, at any depth. */
  private def namesIn(dataType: DataType): Seq[String] = dataType match {
    case struct: StructType => struct.fieldNames.toSeq ++ struct.fields.flatMap(f => namesIn(f.dataType))
    case ArrayType(element, _) => namesIn(element)
    case MapType(key, item, _) => namesIn(key) ++ namesIn(item)
    case _ => Nil
  }

  private def leaf(value: Any, dataType: DataType): String = (value, dataType) match {
    case (null, _) => "None"
    case (flag: Boolean, _) => if (flag) "True" else "False"
    case (number: Float, _) => double(number.toDouble)
    case (number: Double, _) => double(number)
    case (number: Decimal, _) => s"Decimal('${number.toJavaBigDecimal}')"
    case (text, _: StringType) => quoted(text.toString)
    case (bytes: Array[Byte], _) => quoted(bytes)
    case (days: Int, DateType) =>
      val date = LocalDate.ofEpochDay(days.toLong)
      s"datetime.date(${date.getYear}, ${date.getMonthValue}, ${date.getDayOfMonth})"
    case (micros: Long, TimestampType) => dateTime(micros, ZoneId.systemDefault())
    case (micros: Long, TimestampNTZType) => dateTime(micros, ZoneOffset.UTC)
    case (micros: Long, _: DayTimeIntervalType) => timeDelta(micros)
    case (other, _) => other.toString
  }

  private def double(number: Double): String =
    if (number.isNaN) "nan"
    else if (number.isInfinite) if (number > 0) "inf" else "-inf"
    else if (number == 0) if (1 / number < 0) "-0.0" else "0.0"
    else {
      val exact = new JBigDecimal(java.lang.Double.toString(number)).stripTrailingZeros
      val exponent = exact.precision - exact.scale - 1
      if (exponent >= -4 && exponent < 16) {
        val plain = exact.toPlainString
        if (exact.scale > 0) plain else s"$plain.0"
      } else {
        val digits = exact.unscaledValue.abs.toString
        val mantissa = if (digits.length == 1) digits else s"${digits.head}.${digits.tail}"
        f"${if (number < 0) "-" else ""}$mantissa" + f"e${if (exponent < 0) "-" else "+"}${exponent.abs}%02d"
      }
    }

  private def dateTime(micros: Long, zone: ZoneId): String = {
    val seconds = Math.floorDiv(micros, MicrosPerSecond)
    val rest = Math.floorMod(micros, MicrosPerSecond).toInt
    val time = LocalDateTime.ofInstant(Instant.ofEpochSecond(seconds, rest * 1000L), zone)
    val head = Seq(time.getYear, time.getMonthValue, time.getDayOfMonth, time.getHour, time.getMinute)
    val tail = if (rest > 0) Seq(time.getSecond, rest) else Seq(time.getSecond).filter(_ > 0)
    (head ++ tail).mkString("datetime.datetime(", ", ", ")")
  }

  private def timeDelta(micros: Long): String = {
    val days = Math.floorDiv(micros, MicrosPerDay)
    val inDay = Math.floorMod(micros, MicrosPerDay)
    val parts =
      Seq("days" -> days, "seconds" -> inDay / MicrosPerSecond, "microseconds" -> inDay % MicrosPerSecond)
    val shown = parts.collect { case (name, part) if part != 0 => s"$name=$part" }
    s"datetime.timedelta(${if (shown.isEmpty) "0" else shown.mkString(", ")})"
  }

  private def quoted(text: String): String = {
    val quote = if (text.contains('\'') && !text.contains('"')) '"' else '\''
    val shown = new StringBuilder().append(quote)
    text.codePoints.forEach { point =>
      shown.append(if (point == quote) s"\\$quote" else if (point < 128) ascii(point) else beyondAscii(point))
      ()
    }
    shown.append(quote).toString
  }

  private def quoted(bytes: Array[Byte]): String = {
    val quote = if (bytes.contains('\''.toByte) && !bytes.contains('"'.toByte)) '"' else '\''
    val shown = bytes.map(_ & 0xff).map { point =>
      if (point == quote) s"\\$quote" else if (point < 128) ascii(point) else f"\\x$point%02x"
    }
    shown.mkString(s"b$quote", "", quote.toString)
  }

  private def ascii(point: Int): String = point match {
    case '\\' => "\\\\"
    case '\n' => "\\n"
    case '\r' => "\\r"
    case '\t' => "\\t"
    case other if other < 32 || other == 127 => f"\\x$other%02x"
    case other => other.toChar.toString
  }

  private def beyondAscii(point: Int): String =
    if (isPrintable(point)) new String(Character.toChars(point))
    else if (point < 0x100) f"\\x$point%02x"
    else if (point < 0x10000) f"\\u$point%04x"
    else f"\\U$point%08x"

  private def isPrintable(point: Int): Boolean = Character.getType(point) match {
    case Character.CONTROL | Character.FORMAT | Character.SURROGATE | Character.PRIVATE_USE |
        Character.UNASSIGNED | Character.LINE_SEPARATOR | Character.PARAGRAPH_SEPARATOR |
        Character.SPACE_SEPARATOR =>
      false
    case _ => true
  }
}
