package io.pillarbox.spark.keyed.jvm

import io.pillarbox.spark.base.PythonText
import io.pillarbox.spark.keyed.{KeyedErrors, KeyedSpec}
import io.pillarbox.spark.task.UserRows
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType

/**
 * Lays out the rows that a JVM function emits: with side outputs, as the tag, the columns of the main output,
 * and a struct for each side output, null but in its own rows. Rows are valid until the next one is made.
 */
private final class ResultRows(spec: KeyedSpec, text: PythonText) {
  private val tags = spec.tags.toIndexedSeq
  private val mainColumns =
    if (tags.isEmpty) spec.returns else StructType(spec.returns.slice(1, spec.returns.length - tags.size))
  private val mainRows =
    if (tags.isEmpty) new UserRows(mainColumns, text)
    else new UserRows(mainColumns, text, spec.returns, inMain)
  private val sideRows = tags.indices.map(sideRowsOf)

  /** @throws RuntimeException (JVM_RESULT_MISMATCH) if the row does not fit */
  def main(row: Row): InternalRow = fitting(mainRows.toInternal(row))

  /**
   * @throws RuntimeException (UNKNOWN_SIDE_OUTPUT, SIDE_OUTPUT_NOT_A_ROW, JVM_RESULT_MISMATCH) if no such
   *   output was declared, or the value does not fit it
   */
  def side(tag: String, value: Any): InternalRow = {
    val at = tags.indexOf(tag)
    if (at < 0)
      throw refused("UNKNOWN_SIDE_OUTPUT", "tag" -> s"'$tag'", "declared" -> KeyedErrors.quoted(tags))
    value match {
      case row: Row => fitting(sideRows(at).toInternal(row))
      case _ =>
        val shown = text.about(sideColumns(at))(String.valueOf(value))
        throw refused("SIDE_OUTPUT_NOT_A_ROW", "tag" -> tag, "value" -> shown)
    }
  }

  private def refused(error: String, parameters: (String, Any)*): RuntimeException =
    KeyedErrors.named(error, spec.name, parameters: _*)

  private def inMain(row: Row): Row = Row.fromSeq((KeyedSpec.MainTag +: row.toSeq) ++ nulls(tags.size))

  private def sideRowsOf(at: Int): UserRows = {
    val before = tags(at) +: nulls(mainColumns.length + at)
    val after = nulls(tags.size - at - 1)
    new UserRows(sideColumns(at), text, spec.functionOutput, row => Row.fromSeq((before :+ row) ++ after))
  }

  private def sideColumns(at: Int): StructType =
    spec.functionOutput(1 + mainColumns.length + at).dataType.asInstanceOf[StructType]

  private def nulls(count: Int): Seq[Any] = Seq.fill[Any](count)(null)

  private def fitting(row: => InternalRow): InternalRow =
    try row
    catch {
      case misfit: IllegalArgumentException =>
        throw refused("JVM_RESULT_MISMATCH", "reason" -> misfit.getMessage)
    }
}
