package io.pillarbox.spark.base

import java.math.{BigDecimal => JBigDecimal}
import java.time.{Instant, LocalDate, LocalDateTime, ZoneId, ZoneOffset}

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.{ArrayData, MapData}
import org.apache.spark.sql.types._

/** Shows rows in messages as Python shows them, whichever language the function is in. Any thread. */
private[pillarbox] object PythonText {
  private final val LongestRow = 200
  private final val MicrosPerSecond = 1000000L
  private final val MicrosPerDay = 86400L * MicrosPerSecond

  /** Returns `column=value, ...`, at most 200 characters. */
  def row(row: InternalRow, schema: StructType): String = cut(columns(row, schema))

  /** Returns a key: the value of a single column, else a Row. */
  def key(key: InternalRow, schema: StructType): String = cut(
    if (schema.length == 1) valueOf(key, 0, schema.head.dataType) else s"Row(${columns(key, schema)})"
  )

  private def cut(text: String): String =
    if (text.codePointCount(0, text.length) <= LongestRow) text
    else text.substring(0, text.offsetByCodePoints(0, LongestRow - 1)) + "…"

  private def columns(row: InternalRow, schema: StructType): String =
    schema.fields.zipWithIndex
      .map { case (field, i) => s"${field.name}=${valueOf(row, i, field.dataType)}" }
      .mkString(", ")

  private def valueOf(row: InternalRow, at: Int, dataType: DataType): String =
    of(if (row.isNullAt(at)) null else row.get(at, dataType), dataType)

  /** Shows a value; a message about a value must not fail itself. */
  private def of(value: Any, dataType: DataType): String =
    try show(value, dataType)
    catch { case NonFatal(problem) => s"<${dataType.sql}: ${problem.getClass.getSimpleName}>" }

  private def show(value: Any, dataType: DataType): String = (value, dataType) match {
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
    case (array: ArrayData, ArrayType(element, _)) => elements(array, element).mkString("[", ", ", "]")
    case (map: MapData, MapType(key, item, _)) =>
      val pairs = elements(map.keyArray(), key).zip(elements(map.valueArray(), item))
      pairs.map { case (k, v) => s"$k: $v" }.mkString("{", ", ", "}")
    case (struct: InternalRow, fields: StructType) => s"Row(${columns(struct, fields)})"
    case (other, _) => other.toString
  }

  private def elements(array: ArrayData, dataType: DataType): Seq[String] =
    (0 until array.numElements()).map(i =>
      of(if (array.isNullAt(i)) null else array.get(i, dataType), dataType)
    )

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
