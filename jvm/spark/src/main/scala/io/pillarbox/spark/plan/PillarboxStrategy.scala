package io.pillarbox.spark.plan

import org.apache.spark.sql.{SparkSession, Strategy}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan

/** Plans our logical nodes. */
object PillarboxStrategy extends Strategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: AsyncIO =>
      AsyncIOExec(node.spec, node.function, node.inputs, node.results, node.operatorId, planLater(node.child)) :: Nil
    case _ => Nil
  }

  /** Makes `session` plan our nodes, and the sessions cloned from it (each streaming query clones one). */
  def register(session: SparkSession): Unit = session.synchronized {
    val experimental = session.experimental
    if (!experimental.extraStrategies.contains(this))
      experimental.extraStrategies = experimental.extraStrategies :+ this
  }
}
