package io.pillarbox.spark.plan

import io.pillarbox.spark.keyed.KeyedErrors
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.pillarbox.{RealTimeMode, RestartWakeUp, SparkAdapter}

/** Plans our logical nodes. */
private[pillarbox] object PillarboxStrategy extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: AsyncIO if node.spec.carryOver && node.isStreaming =>
      CarryOverExec(node.alone, planLater(node.child)) :: Nil
    case node: AsyncIO if RealTimeMode.reaches(node) =>
      RealTimeCalls.plan(node.alone, planLater(node.child)) :: Nil
    case node: AsyncIO =>
      val alone = node.alone
      val calls = alone.copy(spec = alone.spec.withoutCarryOver)
      AsyncIOExec(calls, node.isStreaming, planLater(node.child)) :: Nil
    case node: KeyedProcess if RealTimeMode.reaches(node) => throw KeyedErrors.inRealTime(node.spec.name)
    case node: KeyedProcess if node.isStreaming => KeyedProcessExec(node.alone, planLater(node.child)) :: Nil
    case node: KeyedProcess => KeyedProcessBatchExec(node.alone, planLater(node.child)) :: Nil
    case ReadState(reader, output) => ReadStateExec(reader, output) :: Nil
    case _ => Nil
  }

  /**
   * Makes `session` plan our nodes, and the sessions cloned from it (each streaming query clones one); and
   * lets timers wake its queries.
   */
  def register(session: SparkSession): Unit = session.synchronized {
    RestartWakeUp.register(session, StreamHooks)
    val experimental = SparkAdapter.experimental(session)
    if (!experimental.extraStrategies.contains(this: SparkStrategy))
      experimental.extraStrategies = experimental.extraStrategies :+ this
  }
}
