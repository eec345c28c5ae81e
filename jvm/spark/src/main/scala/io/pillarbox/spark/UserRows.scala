package io.pillarbox.spark

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.types.StructType

/**
 * Turns rows that a user's function of the JVM made to Spark's own; types and nulls are checked. One thread at a time.
 *
 * @param columns
 *   that the function's rows must have
 * @param whole
 *   the columns of the rows that come out
 * @param complete
 *   makes such a row of one of the function's
 */
final private[spark] class UserRows(columns: StructType, whole: StructType, complete: Row => Row) {
  private val serializer = ExpressionEncoder(whole, lenient = true).createSerializer()

  def this(columns: StructType) = this(columns, columns, identity)

  /**
   * The row, valid until the next call.
   *
   * @throws IllegalArgumentException
   *   saying what does not fit
   */
  def toInternal(row: Row): InternalRow = {
    if (row.length != columns.length)
      throw new IllegalArgumentException(
        s"The function answered with a row of ${row.length} columns, but returns has ${columns.length}: " +
          s"${columns.toDDL}."
      )
    try serializer(complete(row))
    catch { case problem: RuntimeException => throw mismatch(row, problem) }
  }

  /** Spark's own message is the generated expression; what was wrong is in its cause. */
  private def mismatch(row: Row, problem: RuntimeException): IllegalArgumentException = {
    val reason = Option(problem.getCause).getOrElse(problem).getMessage
    new IllegalArgumentException(
      s"The function's answer (${row.mkString(", ")}) does not fit returns, ${columns.toDDL}: $reason",
      problem
    )
  }
}
