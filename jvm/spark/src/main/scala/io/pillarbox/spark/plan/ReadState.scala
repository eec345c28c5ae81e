package io.pillarbox.spark.plan

import io.pillarbox.spark.inspect.StateReader
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.execution.LeafExecNode

/** The rows of stored state. Nodes for the same version of a state are equal, so the cache finds them. */
private[pillarbox] final case class ReadState(reader: StateReader, output: Seq[Attribute])
    extends LeafNode
    with MultiInstanceRelation {

  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))

  /** The size is unknown before the state is read. */
  override def computeStats(): Statistics = Statistics(sizeInBytes = conf.defaultSizeInBytes)

  override protected def stringArgs: Iterator[Any] = Iterator(reader.address)
}

private[pillarbox] final case class ReadStateExec(
    @transient reader: StateReader,
    override val output: Seq[Attribute]
) extends LeafExecNode {

  override protected def doExecute(): RDD[InternalRow] = reader.rows

  override protected def stringArgs: Iterator[Any] = Iterator(reader.address)
}
