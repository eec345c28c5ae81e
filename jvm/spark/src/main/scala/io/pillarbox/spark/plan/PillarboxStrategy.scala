package io.pillarbox.spark.plan

import io.pillarbox.spark.base.PillarboxConf
import io.pillarbox.spark.checkpoint.OperatorMetadata
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.pillarbox.{OperatorsTab, RealTimeMode, RestartWakeUp, SparkAdapter}

/** Plans the library's logical nodes. */
private[pillarbox] object PillarboxStrategy extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    val nodes = planned(plan)
    if (nodes.nonEmpty) OperatorsTab.attach(nodes.head.session.sparkContext)
    nodes
  }

  private def planned(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: AsyncIO if node.spec.carryOver.isDefined && node.isStreaming =>
      val used = UsedColumns.after(node, SparkSession.active)
      CarryOverExec(node.alone, planLater(node.child), used) :: Nil
    case node: AsyncIO if node.spec.expression && RealTimeMode.reaches(node) =>
      throw OperatorMetadata.refused("REAL_TIME_UDF", node.spec.operator)
    case node: AsyncIO if RealTimeMode.reaches(node) =>
      RealTimeCalls.plan(node.alone, planLater(node.child)) :: Nil
    case node: AsyncIO =>
      val alone = node.alone
      val calls = alone.copy(spec = alone.spec.withoutCarryOver)
      val exec = AsyncIOExec(calls, node.isStreaming, planLater(node.child))
      (if (node.isStreaming) ObservedCalls(CallIdentity.observedName(node), exec) else exec) :: Nil
    case node: KeyedProcess if RealTimeMode.reaches(node) =>
      RealTimeKeyed.plan(node, planLater(node.child)) :: Nil
    case node: KeyedProcess if node.isStreaming => KeyedProcessExec(node.alone, planLater(node.child)) :: Nil
    case node: KeyedProcess => KeyedProcessBatchExec(node.alone, planLater(node.child)) :: Nil
    case ReadState(reader, output) => ReadStateExec(reader, output) :: Nil
    case _ => Nil
  }

  /**
   * Makes `session` plan the library's nodes, and so the sessions cloned from it, as each streaming query
   * clones one. Watches its streaming queries if `node` belongs to one.
   *
   * @throws IllegalArgumentException for a setting `spark.pillarbox.*` that has no meaning
   */
  def register(session: SparkSession, node: LogicalPlan): Unit = {
    PillarboxConf.check(SparkAdapter.sqlConf(session))
    registerStrategy(session)
    watch(session, node)
  }

  private def registerStrategy(session: SparkSession): Unit = session.synchronized {
    val experimental = SparkAdapter.experimental(session)
    if (!experimental.extraStrategies.contains(this: SparkStrategy))
      experimental.extraStrategies = experimental.extraStrategies :+ this
    optimize(session, LimitedCalls)
  }

  private def optimize(session: SparkSession, rule: Rule[LogicalPlan]): Unit = {
    val experimental = SparkAdapter.experimental(session)
    if (!experimental.extraOptimizations.contains(rule))
      experimental.extraOptimizations = experimental.extraOptimizations :+ rule
  }

  /** Makes `session` plan the calls of `pb.async_udf`, and so the sessions cloned from it. */
  def registerUdfs(session: SparkSession): Unit = session.synchronized {
    optimize(session, AsyncUdfs)
    registerStrategy(session)
  }

  /**
   * Watches the queries of `session`, so that timers and calls wake them and those that can't run are
   * refused, if the analysed `plan` is a stream with the library's nodes, which may come by a view of another
   * session. Other sessions are not watched, since a watched one stays in memory as long as the application.
   */
  def watch(session: SparkSession, plan: LogicalPlan): Unit =
    if (plan.isStreaming && StreamHooks.concerns(plan) && !SparkAdapter.isOfQuery(session))
      RestartWakeUp.register(session, StreamHooks)
}
