package io.pillarbox.spark.plan

import io.pillarbox.spark.async.AsyncIOSpec
import io.pillarbox.spark.keyed.{KeyedOperatorFactory, KeyedSpec, KeyedTaskSpec}
import io.pillarbox.spark.state.{InitialLayout, InitialRows}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{
  LocalRelation,
  LogicalPlan,
  SupportsNonDeterministicExpression,
  UnaryNode
}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.{Spark43, SparkAdapter}

/**
 * Processes the rows of each key with state and timers, and returns the rows that the function emits.
 *
 * @param computed the expressions of `factory`, where the optimizer finds them
 * @param timestamp the column with the event time
 * @param batchTime `CurrentTimestamp()`, which every micro-batch replaces by its own time
 * @param lateMark the column that tells the function which rows are late, if it gets them
 * @param hasWatermark true if the input is a stream with a watermark
 * @param initial the state that the query starts with
 * @param calls those that the function makes, if it does
 * @param estimates the amounts that limits of calls charge a row with, of those that have an expression
 */
private[pillarbox] final case class KeyedProcess(
    spec: KeyedSpec,
    factory: KeyedOperatorFactory,
    computed: Seq[Expression],
    keys: Seq[Attribute],
    timestamp: Option[Attribute],
    orderBy: Seq[Expression],
    results: Seq[Attribute],
    batchTime: Expression,
    lateMark: Option[Attribute],
    hasWatermark: Boolean,
    initial: Option[InitialPlan],
    calls: Option[AsyncIOSpec],
    estimates: Seq[Expression],
    child: LogicalPlan
) extends UnaryNode
    with SupportsNonDeterministicExpression
    with Spark43.StatefulNode {

  /** Returns the description of a batch's tasks. On the driver, when the operator is about to run. */
  def batchTask(input: Seq[Attribute], conf: SQLConf, metrics: Map[String, SQLMetric]): KeyedTaskSpec =
    KeyedTaskSpec(
      spec,
      // The expressions as they are in this plan, and the files of the present job.
      factory.withExpressions(computed).ofCurrentJob,
      input,
      keys,
      timestamp,
      orderBy,
      isBatch = true,
      hasWatermark = false,
      lateWatermark = Long.MinValue,
      watermark = Long.MinValue,
      batchTime = KeyedTaskSpec.millisOf(batchTime),
      conf.sessionLocalTimeZone,
      ErrorText.of(conf),
      metrics,
      KeyedTaskSpec.maxRowsPerBatch(conf),
      initial.map(_.layout),
      lateMark = lateMark
    )

  /** Returns the node without the plan below it, for a physical node that Spark's tasks may take along. */
  def alone: KeyedProcess = copy(child = LocalRelation(child.output))

  override def output: Seq[Attribute] = results

  override def metadataOutput: Seq[Attribute] = Nil

  override def producedAttributes: AttributeSet = AttributeSet(results)

  /** The function sees every column. */
  override def references: AttributeSet = child.outputSet

  override def allowNonDeterministicExpression: Boolean = true

  /** The options as `explain()` shows them. */
  def summary: Seq[String] = spec.summary ++ calls.toSeq.flatMap(_.shown)

  override protected def stringArgs: Iterator[Any] = summary.iterator

  override protected def doCanonicalize(): LogicalPlan =
    super.doCanonicalize().asInstanceOf[KeyedProcess].copy(initial = initial.map(_.canonicalized))

  override protected def withNewChildInternal(newChild: LogicalPlan): KeyedProcess = copy(child = newChild)
}

/**
 * The state that a query starts with: rows of static data, computed when the first tasks are made. It is no
 * child of the node, as it is no input of the query.
 */
private[pillarbox] final case class InitialPlan(
    session: SparkSession,
    plan: LogicalPlan,
    keys: Seq[Attribute],
    layout: InitialLayout
) {

  /** Returns the same for plans with the same result, whatever their columns' ids. For comparison only. */
  def canonicalized: InitialPlan = {
    val canonical = plan.canonicalized
    copy(
      plan = canonical,
      keys = canonical.output.take(keys.size),
      layout = layout.copy(columns = canonical.output)
    )
  }

  /** Returns the rows, partitioned by key into `partitions` as the input of a stateful operator is. */
  def rows(partitions: Int): InitialRows =
    InitialRows(layout, SparkAdapter.partitionedRows(session, plan, keys, partitions, plan.output.last))
}
