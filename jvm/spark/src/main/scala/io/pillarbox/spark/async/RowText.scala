package io.pillarbox.spark.async

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.StructType

/** Shows rows in error messages, with the names of their columns. */
final class RowText(schema: StructType) {
  private val toScala = CatalystTypeConverters.createToScalaConverter(schema)

  /** `column=value, ...`, cut to [[RowText.MaxLength]] characters. */
  def of(row: InternalRow): String = {
    val values = toScala(row).asInstanceOf[Row]
    val text = schema.fieldNames.indices.map(i => s"${schema.fieldNames(i)}=${values.get(i)}").mkString(", ")
    if (text.length <= RowText.MaxLength) text else text.take(RowText.MaxLength) + "..."
  }
}

object RowText {
  val MaxLength = 500
}
