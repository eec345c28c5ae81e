package io.pillarbox.spark.plan

import io.pillarbox.spark.async.{AsyncIOFunction, AsyncIOSpec, OnError}
import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.task.ReportedException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.EVAL_PYTHON_UDF
import org.apache.spark.sql.catalyst.util.toPrettySQL
import org.apache.spark.sql.pillarbox.{SparkAdapter, UserFunction}
import org.apache.spark.sql.types.{MapType, VariantType}

/**
 * Plans the calls of `pb.async_udf` as [[AsyncIO]] nodes.
 *
 * Spark takes Python UDFs out of expressions, into a node of their own below. This rule of the optimizer runs
 * after that and divides such a node: marked UDFs become calls, the others stay with Spark. It is done when
 * the optimizer ends, so AQE, which plans a query anew, finds calls with the same ids.
 *
 * A call is made once for all uses of it that nothing separates but what leaves rows as they are, as projections,
 * filters, shuffles and most joins do: a filter on a result has, after Spark has moved it, the same UDF as the
 * projection above it.
 */
private[pillarbox] object AsyncUdfs extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.transformUpWithPruning(_.containsPattern(EVAL_PYTHON_UDF)) {
      case eval: BaseEvalPython if eval.udfs.exists(MarkedUdf.isIn) => divide(eval)
    }

  private def divide(eval: BaseEvalPython): LogicalPlan = {
    val (ours, others) = eval.udfs.zip(eval.resultAttrs).partition { case (udf, _) => MarkedUdf.isIn(udf) }
    val below =
      if (others.isEmpty) eval.child else bySpark(eval, others.map(_._1), others.map(_._2), eval.child)
    val (plan, values) = ours.foldLeft((below, Map.empty[ExprId, Expression])) {
      case ((plan, values), (udf, result)) =>
        val (called, value) = evaluated(eval, udf, plan)
        (called, values + (result.exprId -> value))
    }
    val columns = eval.output.map { column =>
      values.get(column.exprId).fold[NamedExpression](column)(Alias(_, column.name)(exprId = column.exprId))
    }
    Project(columns, plan)
  }

  /** Returns a plan that has the columns of `below`, and the value of `udf` over its columns. */
  private def evaluated(
      eval: BaseEvalPython,
      udf: PythonUDF,
      below: LogicalPlan
  ): (LogicalPlan, Expression) =
    if (!MarkedUdf.isIn(udf)) alone(eval, udf, below)
    else {
      val (plan, arguments) = udf.children.foldLeft((below, Seq.empty[Expression])) {
        case ((plan, done), inner: PythonUDF) =>
          val (next, value) = evaluated(eval, inner, plan)
          (next, done :+ value)
        case ((plan, done), argument) => (plan, done :+ argument)
      }
      udf.copy(children = arguments) match {
        case call @ MarkedUdf(spec) => new UdfCall(call, spec, plan).evaluated
        case call => alone(eval, call, plan)
      }
    }

  private def alone(eval: BaseEvalPython, udf: PythonUDF, below: LogicalPlan): (LogicalPlan, Expression) = {
    val result = AttributeReference(udf.name, udf.dataType)()
    (bySpark(eval, Seq(udf), Seq(result), below), result)
  }

  private def bySpark(
      eval: BaseEvalPython,
      udfs: Seq[PythonUDF],
      results: Seq[Attribute],
      below: LogicalPlan
  ): LogicalPlan = eval match {
    case arrow: ArrowEvalPython => ArrowEvalPython(udfs, results, below, arrow.evalType)
    case _ => BatchEvalPython(udfs, results, below)
  }
}

/** The call of a marked UDF, whose arguments have no Python UDFs any more, over the rows of `below`. */
private final class UdfCall(udf: PythonUDF, declared: AsyncIOSpec, below: LogicalPlan) {

  private val arguments = udf.children.map {
    case NamedArgumentExpression(name, value) => (Some(name), value)
    case value => (None, value)
  }
  private val function = AsyncIOFunction.Python(UserFunction.of(udf.func))

  /** The spec with the names of the arguments; an empty one for those without. */
  private val spec =
    declared.copy(worker = declared.worker.copy(arguments = arguments.map(_._1.getOrElse(""))))

  /** Returns a plan that has the columns of `below`, and the value of the call over its columns. */
  def evaluated: (LogicalPlan, Expression) = madeBelow(below, arguments.map(_._2)) match {
    case Some(node) => (exposed(node, below), value(node.results))
    case None =>
      val node = made
      (node, value(node.results))
  }

  /**
   * Makes the call. Its columns are named as the query shows the arguments, for messages; but by place where a
   * name is part of what is kept, since the same call may be written in many ways.
   */
  private def made: AsyncIO = {
    val estimate = Estimates.udf(spec, function.function, udf.children)
    val estimated = estimate.map(made => AttributeReference(made.name, made.dataType)())
    val rows = estimate.fold(below)(made => BatchEvalPython(Seq(made), estimated.toSeq, below))
    val inputs: Seq[NamedExpression] = arguments.zipWithIndex.map {
      case ((name, value), place) if spec.isNamed => Alias(value, name.getOrElse((place + 1).toString))()
      case ((_, column: Attribute), _) => column
      case ((name, value), _) => Alias(value, name.getOrElse(toPrettySQL(value)))()
    }
    val computed = inputs.collect { case alias: Alias => alias }
    val child = if (computed.isEmpty) rows else Project(rows.output ++ computed, rows)
    AsyncIO(
      spec.withoutEstimator,
      function,
      inputs.map(_.toAttribute),
      keys(inputs),
      Nil,
      AsyncIOPlanner.results(spec),
      Estimates.returned(spec, estimated),
      Nil,
      child
    )
  }

  private def keys(inputs: Seq[NamedExpression]): Seq[Attribute] =
    if (spec.isKeyed) inputs.map(input => comparable(input.toAttribute)) else Nil

  private def comparable(argument: Attribute): Attribute = {
    val isOdd = SparkAdapter.contains(argument.dataType) {
      case _: MapType | VariantType => true
      case _ => false
    }
    if (!isOdd) argument
    else {
      val told = Seq("argument" -> argument.name, "data_type" -> argument.dataType.sql)
      throw new ReportedException(FailureReport.of("ARGUMENT_NOT_COMPARABLE", spec.operator, told: _*))
    }
  }

  private def value(results: Seq[Attribute]): Expression =
    if (spec.onError == OnError.Column)
      CreateNamedStruct(results.flatMap(column => Seq(Literal(column.name), column)))
    else results.head

  /**
   * Returns the node that makes an equal call, if what is above it leaves its results as they are. Spark moves
   * a filter on a result below what its columns come from, as far as it can.
   *
   * @param values the arguments, over the columns of `plan`
   */
  private def madeBelow(plan: LogicalPlan, values: Seq[Expression]): Option[AsyncIO] = plan match {
    case node: AsyncIO if isEqual(node, values) => Some(node)
    case Project(columns, child) =>
      val computed = AttributeMap(columns.collect { case alias: Alias => alias.toAttribute -> alias.child })
      madeBelow(
        child,
        values.map(_.transform { case column: Attribute => computed.getOrElse(column, column) })
      )
    case _: Filter | _: BaseEvalPython | _: GlobalLimit | _: LocalLimit | _: Sort | _: RepartitionOperation =>
      madeBelow(plan.children.head, values)
    case node: AsyncIO if node.spec.expression => madeBelow(node.child, values)
    case join: Join => keptSides(join).flatMap(madeBelow(_, values)).headOption
    case _ => None
  }

  /**
   * The sides of a join whose rows it gives out as they are, perhaps several times. None in a stream, which would
   * keep results in its state.
   */
  private def keptSides(join: Join): Seq[LogicalPlan] = join.joinType match {
    case _ if join.isStreaming => Nil
    case _: InnerLike => Seq(join.left, join.right)
    case LeftOuter | LeftExistence(_) => Seq(join.left)
    case RightOuter => Seq(join.right)
    case _ => Nil
  }

  private def isEqual(node: AsyncIO, values: Seq[Expression]): Boolean =
    MarkedUdf.isMovable(udf) && node.spec == spec.withoutEstimator && node.function == function &&
      node.inputs.map(origin(node.child, _)).zip(values).forall { case (origins, value) =>
        origins.exists(_.semanticEquals(value))
      }

  /** The expressions that `column` stands for: itself, and what the projection below it computes. */
  private def origin(child: LogicalPlan, column: Attribute): Seq[Expression] = child match {
    case Project(columns, _) =>
      column +: columns.collect { case alias: Alias if alias.exprId == column.exprId => alias.child }
    case _ => Seq(column)
  }

  /** Returns `plan`, in which `madeBelow` has found `node`, with the node's results as columns. */
  private def exposed(node: AsyncIO, plan: LogicalPlan): LogicalPlan = plan match {
    case same if same.eq(node) => same
    case Project(columns, child) =>
      val missing = node.results.filterNot(result => columns.exists(_.exprId == result.exprId))
      Project(columns ++ missing, exposed(node, child))
    case other =>
      other.withNewChildren(other.children.map { child =>
        if (child.exists(_.eq(node))) exposed(node, child) else child
      })
  }
}
