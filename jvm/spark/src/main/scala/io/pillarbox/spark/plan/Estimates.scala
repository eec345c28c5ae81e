package io.pillarbox.spark.plan

import io.pillarbox.spark.async.AsyncIOSpec
import io.pillarbox.spark.base.FailureReport
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Cast, Expression}
import org.apache.spark.sql.pillarbox.RowExpressions
import org.apache.spark.sql.types.{DoubleType, NumericType}
import org.apache.spark.sql.{AnalysisException, SparkSession}

/** The amounts that limits charge a row with, of those that have a SQL expression. On the driver. */
private[plan] object Estimates {

  /** @throws IllegalArgumentException (ESTIMATE_EXPRESSION) for one that is no number of a row */
  def of(session: SparkSession, spec: AsyncIOSpec, columns: Seq[Attribute]): Seq[Expression] = {
    val expressions = new RowExpressions(session)
    def refused(text: String, what: String) = new IllegalArgumentException(
      FailureReport.of("ESTIMATE_EXPRESSION", spec.operator, "expression" -> text, "what" -> what).layout
    )
    spec.limits.flatMap(_.estimateSql).map { text =>
      try
        expressions.resolve(Seq(text), columns) match {
          case Seq(one) if one.dataType.isInstanceOf[NumericType] => Cast(unaliased(one), DoubleType)
          case Seq(one) => throw refused(text, s"the type ${one.dataType.sql}")
          case several => throw refused(text, s"${several.size} columns")
        }
      catch {
        case problem: RowExpressions.Refused => throw refused(problem.text, problem.what)
        // A syntax error shows the text in further lines.
        case problem: AnalysisException =>
          val reason = problem.getSimpleMessage.linesIterator.find(_.nonEmpty).getOrElse("")
          throw refused(text, s"an error (${reason.stripSuffix(".")})")
      }
    }
  }

  private def unaliased(named: Expression): Expression = named match {
    case alias: Alias => alias.child
    case other => other
  }
}
