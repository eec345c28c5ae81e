package io.pillarbox.spark.plan

import java.util.Base64

import io.pillarbox.spark.async.AsyncIOSpec
import io.pillarbox.spark.base.FailureReport
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.pillarbox.{RowExpressions, UserFunction}
import org.apache.spark.sql.types._
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * The amounts that limits charge a row with, of those that have a SQL expression or a function. On the driver.
 *
 * Functions in Python are a UDF of Spark, whose column is made below the operator; the workers of a keyed
 * function call them themselves.
 */
private[plan] object Estimates {

  /** The name of the UDF's column. With carry-over it is stored, so it does not tell the operator's name. */
  final val Column = "pillarbox.estimates"

  /**
   * What the UDF returns, as `python/src/pillarbox/_async/estimators.py` has it. The amounts are named by what
   * their limits count, so that with carry-over those of other limits are not taken for them.
   */
  private def returnedBy(spec: AsyncIOSpec): StructType = {
    val amounts = spec.limits.filter(_.estimateFunction.isDefined).map { limit =>
      StructField(limit.counted, DoubleType)
    }
    new StructType().add("amounts", StructType(amounts)).add("what", StringType).add("traceback", StringType)
  }

  /** For functions whose amounts are not known before the call. */
  def toldLater(spec: AsyncIOSpec): Expression = Literal.create(null, returnedBy(spec))

  /**
   * Returns the UDF of an operator's functions, if it has some.
   *
   * @param of the function that the operator calls, whose environment the UDF shares
   */
  def udf(spec: AsyncIOSpec, of: UserFunction, arguments: Seq[Expression]): Option[PythonUDF] =
    spec.estimator.map { pickled =>
      of.udf(s"estimate of ${spec.operator}", Base64.getDecoder.decode(pickled), returnedBy(spec), arguments)
    }

  /** Returns the column of the UDF for each limit that has a function. */
  def returned(spec: AsyncIOSpec, column: Option[Attribute]): Seq[Expression] =
    spec.limits.filter(_.estimateFunction.isDefined).flatMap(_ => column)

  /**
   * @param returned what the UDF returns
   * @throws IllegalArgumentException (ESTIMATE_EXPRESSION) for one that is no number of a row, or fails without one
   */
  def of(
      session: SparkSession,
      spec: AsyncIOSpec,
      columns: Seq[Attribute],
      returned: Expression
  ): Seq[Expression] = spec.limits.flatMap { limit =>
    limit.estimateSql
      .map(resolved(session, spec, columns, _))
      .orElse(limit.estimateFunction.map(_ => returned))
  }

  private def resolved(
      session: SparkSession,
      spec: AsyncIOSpec,
      columns: Seq[Attribute],
      text: String
  ): Expression = {
    def refused(text: String, what: String) = new IllegalArgumentException(
      FailureReport.of("ESTIMATE_EXPRESSION", spec.operator, "expression" -> text, "what" -> what).errorText
    )
    val expressions = new RowExpressions(session)
    def failed(message: String) = {
      // A syntax error shows the text in further lines.
      val reason = message.linesIterator.find(_.nonEmpty).getOrElse("")
      refused(text, s"an error (${reason.stripSuffix(".")})")
    }
    try
      expressions.resolve(Seq(text), columns) match {
        case Seq(one) if one.dataType.isInstanceOf[NumericType] =>
          expressions
            .failureOf(one, columns)
            .foreach(problem => throw failed(String.valueOf(problem.getMessage)))
          Cast(takingNulls(unaliased(one)), DoubleType)
        case Seq(one) => throw refused(text, s"the type ${one.dataType.sql}")
        case several => throw refused(text, s"${several.size} columns")
      }
    catch {
      case problem: RowExpressions.Refused => throw refused(problem.text, problem.what)
      case problem: AnalysisException => throw failed(problem.getSimpleMessage)
    }
  }

  /**
   * Keeps the optimizer from ruling out nulls by the plan of one micro-batch, as rows may wait for another: see
   * [[SparkAdapter.asNullable(columns:*]].
   */
  private def takingNulls(estimate: Expression): Expression = estimate.transformUp { case column: Attribute =>
    KnownNullable(column)
  }

  private def unaliased(named: Expression): Expression = named match {
    case alias: Alias => alias.child
    case other => other
  }
}
