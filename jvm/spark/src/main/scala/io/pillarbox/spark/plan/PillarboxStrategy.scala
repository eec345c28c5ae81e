package io.pillarbox.spark.plan

import io.pillarbox.spark.base.PillarboxConf
import io.pillarbox.spark.keyed.KeyedErrors
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.pillarbox.{RealTimeMode, RestartWakeUp, SparkAdapter}

/** Plans our logical nodes. */
private[pillarbox] object PillarboxStrategy extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: AsyncIO if node.spec.carryOver.isDefined && node.isStreaming =>
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
   * watches its streaming queries if `node` is of such.
   *
   * @throws IllegalArgumentException
   *   for a setting `spark.pillarbox.*` that has no meaning
   */
  def register(session: SparkSession, node: LogicalPlan): Unit = {
    PillarboxConf.check(SparkAdapter.sqlConf(session))
    session.synchronized {
      val experimental = SparkAdapter.experimental(session)
      if (!experimental.extraStrategies.contains(this: SparkStrategy))
        experimental.extraStrategies = experimental.extraStrategies :+ this
    }
    watch(session, node)
  }

  /**
   * Lets timers and calls wake the queries of `session`, and refuses those that can't run, if `plan`, which
   * it has analysed, is that of a stream with our nodes. They may have come by a view of another session. A
   * session that is watched stays in memory as long as the application, so others are not.
   */
  def watch(session: SparkSession, plan: LogicalPlan): Unit =
    if (plan.isStreaming && StreamHooks.concerns(plan) && !SparkAdapter.isOfQuery(session))
      RestartWakeUp.register(session, StreamHooks)
}
