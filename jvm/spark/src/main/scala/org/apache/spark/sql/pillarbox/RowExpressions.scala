package org.apache.spark.sql.pillarbox

import java.util.Locale

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.analysis.{
  SQLScalarFunction,
  UnresolvedAlias,
  UnresolvedStar,
  UnresolvedStarExceptOrReplace
}
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.optimizer.{ComputeCurrentTime, ConstantFolding}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreePattern
import org.apache.spark.sql.types.{DateType, TimestampNTZType, TimestampType}
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Turns SQL texts into expressions of one row, by the session's rules, on the driver.
 *
 * They hold nothing that Spark's optimizer replaces by a node below, since there is nothing below a row with
 * state. Expressions that it replaces in place (the current time) are left to it, so they have to be
 * expressions of a plan node. All are deterministic, so that a replayed micro-batch gives the same values.
 */
final class RowExpressions(session: SparkSession) {
  private val state = SparkAdapter.classicOf(session).sessionState

  /**
   * Returns the expressions over `columns`, and those of `further` that they name; a star is all of `columns`.
   *
   * @throws org.apache.spark.sql.AnalysisException if one has an unknown column or function, or is invalid
   * @throws RowExpressions.Refused if one is no expression of a row
   */
  def resolve(
      texts: Seq[String],
      columns: Seq[Attribute],
      further: Seq[Attribute] = Nil
  ): Seq[NamedExpression] =
    try resolveTogether(texts, columns, further)
    catch {
      case problem @ (_: RowExpressions.Refused | _: AnalysisException) =>
        throw texts.iterator.flatMap(refusalOf(_, columns, further)).nextOption().getOrElse(problem)
    }

  /**
   * Returns the error with which Spark's optimizer would fail the query, for an expression that has a part
   * without columns, such as 1/0, that fails.
   */
  def failureOf(expression: NamedExpression, columns: Seq[Attribute]): Option[Throwable] =
    try {
      ConstantFolding(ComputeCurrentTime(Project(Seq(expression), LocalRelation(columns))))
      None
    } catch { case NonFatal(problem) => Some(problem) }

  private def resolveTogether(
      texts: Seq[String],
      columns: Seq[Attribute],
      further: Seq[Attribute]
  ): Seq[NamedExpression] = {
    val parsed = texts.map(state.sqlParser.parseExpression)
    val named = parsed.map(RowExpressions.withoutInStars(_, further.map(_.name))).map {
      case named: NamedExpression => named
      case other => UnresolvedAlias(other)
    }
    val execution = state.executePlan(Project(named, LocalRelation(columns ++ further)))
    execution.assertAnalyzed()
    val resolved = RowExpressions.ofRow(execution.analyzed) match {
      case Left(what) => throw new RowExpressions.Refused(texts.mkString(", "), what)
      case Right(expressions) =>
        expressions.map(_.mapChildren(RowExpressions.replaced).asInstanceOf[NamedExpression])
    }
    resolved.flatMap(RowExpressions.offence).headOption.foreach { what =>
      throw new RowExpressions.Refused(texts.mkString(", "), what)
    }
    resolved
  }

  /** Tries one text alone, which may need a column that another one makes. */
  private def refusalOf(
      text: String,
      columns: Seq[Attribute],
      further: Seq[Attribute]
  ): Option[RowExpressions.Refused] =
    try {
      resolveTogether(Seq(text), columns, further)
      None
    } catch {
      case refused: RowExpressions.Refused => Some(refused)
      case _: AnalysisException => None
    }
}

object RowExpressions extends AliasHelper {

  /** The error of a `text` that can't be computed from a row, since it has `what`. */
  final class Refused(val text: String, val what: String) extends IllegalArgumentException(s"$text has $what")

  /** Leaves columns of these names out of the stars of a parsed expression. */
  private def withoutInStars(parsed: Expression, names: Seq[String]): Expression =
    if (names.isEmpty) parsed
    else
      parsed.transform {
        case UnresolvedStar(None) => UnresolvedStarExceptOrReplace(None, names.map(Seq(_)), None)
        case UnresolvedStarExceptOrReplace(None, left, replaced) =>
          val others = left.filterNot(parts => names.exists(_.equalsIgnoreCase(parts.head)))
          UnresolvedStarExceptOrReplace(None, others ++ names.map(Seq(_)), replaced)
      }

  /** Returns the top one of nested projections over the columns at the bottom, or the node between them. */
  private def ofRow(plan: LogicalPlan): Either[String, Seq[NamedExpression]] = plan match {
    case Project(list, _: LocalRelation) => Right(list)
    case Project(list, below: Project) =>
      ofRow(below).flatMap { inner =>
        val aliases = getAliasMap(inner)
        Right(list.map(replaceAliasButKeepName(_, aliases)))
      }
    case Project(_, other) => ofRow(other)
    case _: Window => Left("a window function")
    case _: Generate => Left("a function that makes several rows")
    case _: Aggregate => Left("an aggregate function")
    case _ => Left("a function that adds or leaves out rows")
  }

  /** Replaces what only the optimizer can evaluate, unless it is evaluated as one piece. */
  private def replaced(expression: Expression): Expression = expression match {
    case function: RuntimeReplaceable => replaced(function.replacement)
    case function: SQLScalarFunction => replaced(function.child)
    case With(child, definitions) =>
      val values = definitions.map(definition => definition.id -> definition.child).toMap
      replaced(child.transform { case ref: CommonExpressionRef if values.contains(ref.id) => values(ref.id) })
    // A micro-batch replaces only this one by its time.
    case Now() => CurrentTimestamp()
    case other => other.mapChildren(replaced)
  }

  /** Returns the part that a row does not determine, or not for good. */
  private def offence(expression: Expression): Option[String] = expression match {
    case _: SubqueryExpression => Some("a subquery")
    case python: PythonFuncExpression => Some(s"the Python function ${python.name}")
    case time if Spark41.isCurrentTime(time) => Some("current_time(), which is not the micro-batch's")
    case Cast(Literal(text: UTF8String, _), DateType | TimestampType | TimestampNTZType, _, _)
        if isMoving(text) =>
      Some(s"the moving time '$text'")
    case _ =>
      expression.children.flatMap(offence).headOption.orElse {
        Option.when(!expression.deterministic || isUnevaluable(expression))(nameOf(expression))
      }
  }

  private def isMoving(text: UTF8String): Boolean =
    Set("now", "today", "tomorrow", "yesterday").contains(text.toString.trim.toLowerCase(Locale.ROOT))

  /** True if no task can evaluate it and the optimizer does not replace it in place. */
  private def isUnevaluable(expression: Expression): Boolean = expression match {
    case _: Attribute => false
    case leaf: LeafExpression if leaf.containsPattern(TreePattern.CURRENT_LIKE) => false
    case other => other.isInstanceOf[Unevaluable]
  }

  private def nameOf(expression: Expression): String = expression match {
    case function: UserDefinedExpression => s"${function.name}()"
    case other => s"${other.prettyName}()"
  }
}
