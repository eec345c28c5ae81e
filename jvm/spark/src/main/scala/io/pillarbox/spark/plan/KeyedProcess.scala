package io.pillarbox.spark.plan

import io.pillarbox.spark.keyed.{KeyedOperatorFactory, KeyedSpec}
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{
  LogicalPlan,
  SupportsNonDeterministicExpression,
  UnaryNode
}

/**
 * Processes the rows of each key with state and timers; puts out what the function emits.
 *
 * @param timestamp
 *   the column with the event time
 * @param batchTime
 *   `CurrentTimestamp()`, which every micro-batch replaces by its own time
 * @param hasWatermark
 *   whether the input is a stream with a watermark
 */
final case class KeyedProcess(
    spec: KeyedSpec,
    factory: KeyedOperatorFactory,
    keys: Seq[Attribute],
    timestamp: Option[Attribute],
    orderBy: Seq[Attribute],
    results: Seq[Attribute],
    batchTime: Expression,
    hasWatermark: Boolean,
    child: LogicalPlan
) extends UnaryNode
    with SupportsNonDeterministicExpression {

  override def output: Seq[Attribute] = results

  override def producedAttributes: AttributeSet = AttributeSet(results)

  /** The function sees every column. */
  override def references: AttributeSet = child.outputSet

  override def allowNonDeterministicExpression: Boolean = true

  override protected def stringArgs: Iterator[Any] = spec.summary.iterator

  override protected def withNewChildInternal(newChild: LogicalPlan): KeyedProcess = copy(child = newChild)
}
