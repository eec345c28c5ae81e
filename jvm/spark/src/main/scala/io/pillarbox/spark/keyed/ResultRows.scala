package io.pillarbox.spark.keyed

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.StructType

/**
 * Lays out the rows that a function of the JVM emits: with side outputs, as the tag, the columns of the main output, and
 * a struct for each side output, null but in its own rows.
 */
final private class ResultRows(spec: KeyedSpec, schema: StructType) {
  private val toCatalyst = CatalystTypeConverters.createToCatalystConverter(schema)
  private val tags = spec.tags.toIndexedSeq
  private val width = if (tags.isEmpty) schema.length else schema.length - 1 - tags.size

  def main(row: Row): InternalRow =
    if (tags.isEmpty) catalyst(row)
    else catalyst(Row.fromSeq((ResultRows.Main +: row.toSeq) ++ Seq.fill(tags.size)(null)))

  /**
   * @throws org.apache.spark.api.python.PythonException
   *   (UNKNOWN_SIDE_OUTPUT) if no such output was declared, or the value is no row
   */
  def side(tag: String, value: Any): InternalRow = {
    val at = tags.indexOf(tag)
    if (at < 0) throw KeyedErrors.unknownSideOutput(spec.name, tag, tags)
    if (!value.isInstanceOf[Row]) throw KeyedErrors.sideOutputNoRow(spec.name, tag, value)
    val sides = Seq.tabulate(tags.size)(i => if (i == at) value else null)
    catalyst(Row.fromSeq((tag +: Seq.fill(width)(null)) ++ sides))
  }

  private def catalyst(row: Row): InternalRow = toCatalyst(row).asInstanceOf[InternalRow]
}

private object ResultRows {

  /** The tag of rows of the main output; the Python package has the same. */
  final val Main = "main"
}
