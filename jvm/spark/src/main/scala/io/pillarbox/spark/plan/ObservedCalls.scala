package io.pillarbox.spark.plan

import io.pillarbox.spark.async.AsyncIOMetrics
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, GenericRowWithSchema, Literal, NamedExpression}
import org.apache.spark.sql.execution.{CollectMetricsExec, SparkPlan}

/**
 * Shows the figures of the operator below it in a query's progress, under `observedMetrics`: Spark's progress
 * takes figures from stateful operators and from nodes of this class only. It passes the operator's rows on
 * as they are.
 *
 * @param name the figures' name in the progress
 */
private[plan] final class ObservedCalls(
    name: String,
    figures: Seq[NamedExpression],
    child: SparkPlan
) extends CollectMetricsExec(name, figures, child) {

  /** The figures of the last micro-batch that ran. On the driver. */
  override def collectedMetrics: Row = {
    val sums = child.collectFirst { case calls: AsyncIOExec => calls.metrics }.get
    val metricOf = AsyncIOMetrics.InProgress.toMap
    val values = figures.map(figure => sums(metricOf.getOrElse(figure.name, figure.name)).value)
    new GenericRowWithSchema(values.toArray, metricsSchema)
  }

  override protected def doExecute(): RDD[InternalRow] = child.execute()

  override protected def stringArgs: Iterator[Any] = Iterator(name)

  override protected def withNewChildInternal(newChild: SparkPlan): ObservedCalls =
    new ObservedCalls(name, figures, newChild)
}

private[plan] object ObservedCalls {
  def apply(name: String, child: AsyncIOExec): ObservedCalls = {
    // Literals, of which the node's class asks only names and types.
    val names = AsyncIOMetrics.InProgress.map(_._1) ++ child.node.spec.units.map(AsyncIOMetrics.usage)
    val figures = names.map(figure => Alias(Literal(0L), figure)())
    new ObservedCalls(name, figures, child)
  }
}
