package io.pillarbox.spark.keyed.scan

import io.pillarbox.spark.keyed.{KeyedErrors, ScanColumn, ScanSpec}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.pillarbox.{RowExpressions, SparkAdapter}
import org.apache.spark.sql.types.{DataType, NullType}

/**
 * Resolves the expressions of a scan over `row`. Runs on the driver.
 *
 * @param name the operator's name
 * @param lateMark the column that tells if a row is late, which a column of this name hides
 */
private[pillarbox] final class ScanCompiler(
    session: SparkSession,
    name: String,
    scan: ScanSpec,
    row: Seq[Attribute],
    lateMark: Option[Attribute]
) {
  private val expressions = new RowExpressions(session)
  private val isSame = SparkAdapter.sqlConf(session).resolver
  private val timeZone = SparkAdapter.sqlConf(session).sessionLocalTimeZone

  /**
   * Returns the program, and the columns of its rows.
   *
   * @throws org.apache.spark.sql.AnalysisException if an expression can't be resolved
   * @throws IllegalArgumentException if one is no expression of a row, or if a column of the state has the
   *   name of a column of the row, or no type
   */
  def compile(): (ScanProgram, Seq[Attribute]) = {
    checkNames()
    val initials = scan.state.map(column => initialOf(column))
    val types = new ScanTypes(name, scan.state, initials, types => updates(attributes(types))).settle()
    scan.state.zip(types).foreach { case (column, dataType) => checkType(column, dataType) }
    val state = attributes(types)
    val old = AttributeReference("old", DataTypeUtils.fromAttributes(state), nullable = false)()
    val emits = selected(row ++ state, lateMark.toSeq :+ old)
    val program = ScanProgram(
      state,
      old,
      initials.zip(types).map { case (initial, dataType) => cast(initial, dataType) },
      updates(state).zip(types).map { case (update, dataType) => cast(update, dataType) },
      emits.map(unaliased),
      scan.ttl.map(_.config)
    )
    (program, emits.map(_.toAttribute))
  }

  private def initialOf(column: ScanColumn): Expression =
    one(s"The initial value of the state '${column.name}'", column.init, row)

  private def updates(state: Seq[Attribute]): Seq[Expression] = scan.state.map { column =>
    one(s"The update of the state '${column.name}'", column.update, row ++ state)
  }

  private def one(place: String, text: String, columns: Seq[Attribute]): Expression =
    resolve(place, Seq(text), columns) match {
      case Seq(named) => unaliased(named)
      case several => throw refused(place, text, s"${several.size} columns")
    }

  private def resolve(
      place: String,
      texts: Seq[String],
      columns: Seq[Attribute],
      further: Seq[Attribute] = Nil
  ): Seq[NamedExpression] =
    try expressions.resolve(texts, columns, further)
    catch {
      case refused: RowExpressions.Refused => throw this.refused(place, refused.text, refused.what)
    }

  /**
   * Returns what goes out, over `columns`, and over those of `further` that it names. One of `columns` hides a
   * further one of its name.
   */
  private def selected(columns: Seq[Attribute], further: Seq[Attribute]): Seq[NamedExpression] = {
    val texts = if (scan.select.isEmpty) Seq("*") else scan.select
    val named = further.filter { one =>
      val word = s"(?i)\\b${one.name}\\b".r
      texts.exists(word.findFirstIn(_).isDefined) && !columns.exists(column => isSame(column.name, one.name))
    }
    resolve("select", texts, columns, named)
  }

  /** @param what the part that no row's values determine */
  private def refused(place: String, text: String, what: String): IllegalArgumentException = KeyedErrors
    .refused("SCAN_EXPRESSION", name, "place" -> place, "expression" -> text, "what" -> what)

  private def unaliased(named: NamedExpression): Expression = named match {
    case alias: Alias => alias.child
    case other => other
  }

  private def attributes(types: Seq[DataType]): Seq[AttributeReference] =
    scan.state.zip(types).map { case (column, dataType) => AttributeReference(column.name, dataType)() }

  private def cast(value: Expression, to: DataType): Expression =
    if (SparkAdapter.asNullable(value.dataType) == to) value else Cast(value, to, Some(timeZone))

  private def checkNames(): Unit = {
    val taken = scan.state.map(_.name).filter(state => row.exists(column => isSame(column.name, state)))
    if (taken.nonEmpty)
      throw new IllegalArgumentException(
        s"$name: the state ${taken.mkString(", ")} has the name of a column: give the state " +
          "another one"
      )
  }

  private def checkType(column: ScanColumn, dataType: DataType): Unit =
    if (SparkAdapter.contains(dataType)(_ == NullType))
      throw new IllegalArgumentException(
        s"$name: the state ${column.name} has no type: write its initial value as CAST(NULL AS ...)"
      )
}
