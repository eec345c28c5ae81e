package io.pillarbox.spark.plan

import io.pillarbox.spark.keyed.{ScanColumn, ScanProgram, ScanSpec}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.{DataType, NullType}

/**
 * Resolves the expressions of a scan and finds the types of its state: that of the initial value, or the wider one that
 * the first update makes of it. Runs on the driver.
 */
final class ScanCompiler(df: DataFrame, spec: ScanSpec, row: Seq[Attribute]) {

  /**
   * The program, and the columns that it puts out.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if an expression can't be resolved
   * @throws IllegalArgumentException
   *   if a column of the state has the name of a column of the row, or no lasting type
   */
  def compile(): (ScanProgram, Seq[Attribute]) = {
    checkNames()
    val initials = resolve(spec.state.map(_.init), row)
    val first = attributes(initials.map(_.dataType))
    val widened =
      resolve(spec.state.map(_.update), row ++ first).zip(initials).map { case (update, initial) =>
        if (update.dataType != initial.dataType && Cast.canUpCast(initial.dataType, update.dataType))
          update.dataType
        else initial.dataType
      }
    spec.state.zip(widened).foreach { case (column, dataType) => checkType(column, dataType) }
    val state = attributes(widened)
    val updates =
      resolve(spec.state.map(_.update), row ++ state).zip(state).map { case (e, a) => cast(e, a.dataType) }
    val emits = SparkAdapter.resolveAll(df, if (spec.emit.isEmpty) Seq("*") else spec.emit, row ++ state)
    val program = ScanProgram(
      row,
      state,
      initials.zip(state).map { case (e, a) => cast(e, a.dataType) },
      updates,
      emits.map(unaliased),
      spec.ttl
    )
    (program, emits.map(_.toAttribute))
  }

  private def resolve(texts: Seq[String], columns: Seq[Attribute]): Seq[Expression] =
    SparkAdapter.resolveAll(df, texts, columns).map(unaliased)

  private def unaliased(named: NamedExpression): Expression = named match {
    case alias: Alias => alias.child
    case other => other
  }

  private def attributes(types: Seq[DataType]): Seq[AttributeReference] =
    spec.state.zip(types).map { case (column, dataType) => AttributeReference(column.name, dataType)() }

  private def cast(value: Expression, to: DataType): Expression =
    if (value.dataType == to) value
    else Cast(value, to, Some(df.sparkSession.conf.get("spark.sql.session.timeZone")))

  private def checkNames(): Unit = {
    val taken = spec.state.map(_.name).filter(name => row.exists(_.name.equalsIgnoreCase(name)))
    if (taken.nonEmpty)
      throw new IllegalArgumentException(
        s"scan: the state ${taken.mkString(", ")} has the name of a column: give the state another one"
      )
  }

  private def checkType(column: ScanColumn, dataType: DataType): Unit =
    if (dataType == NullType)
      throw new IllegalArgumentException(
        s"scan: the state ${column.name} has no type: write its initial value as CAST(NULL AS ...)"
      )
}
