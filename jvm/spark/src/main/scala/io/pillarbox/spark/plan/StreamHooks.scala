package io.pillarbox.spark.plan

import java.util.UUID

import io.pillarbox.spark.async.carry.{CarriedCalls, CarryRegistry}
import io.pillarbox.spark.checkpoint._
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.streaming.OneTimeTrigger
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.{QueryHooks, Spark41, StartingQuery}
import org.apache.spark.sql.streaming.Trigger

/** Refuses streaming queries that can't keep the nodes' promises; wakes queries, and cleans up after them. */
private[plan] object StreamHooks extends QueryHooks {

  override def concerns(plan: LogicalPlan): Boolean =
    plan.exists(node => node.isInstanceOf[KeyedProcess] || node.isInstanceOf[AsyncIO])

  override def canWake(plan: LogicalPlan): Boolean =
    hasCarryOver(plan) || plan.exists(_.isInstanceOf[KeyedProcess])

  override def starts(run: UUID, plan: LogicalPlan, conf: SQLConf): Unit = {
    val setting = SQLConf.SHUFFLE_PARTITIONS
    val besideSpark = plan.exists(node => isStateful(node) && !node.isInstanceOf[KeyedProcess])
    AskedPartitions.begin(
      run,
      AskedPartitions(Option.when(conf.contains(setting.key))(conf.getConf(setting)), besideSpark)
    )
  }

  override def ended(run: UUID): Unit = {
    AskedPartitions.close(run)
    CarryRegistry.close(run.toString)
    OperatorRegistry.close(run.toString)
  }

  override def check(query: StartingQuery): Unit = {
    val carrying = query.plan.collect { case node: AsyncIO if isCarrying(node) => node }
    checkAgainstCheckpoint(query, carrying)
    carrying.headOption.foreach { node =>
      checkTrigger(node, query.trigger)
      checkConf(node, query)
      checkWatermarks(query.plan)
    }
  }

  /** Refuses these before Spark does, whose message names no option, or has Spark take them. */
  private def checkAgainstCheckpoint(query: StartingQuery, carrying: Seq[AsyncIO]): Unit =
    if (query.nextBatch > 0) {
      val stored = StoredOperators.at(query.state, query.nextBatch, query.hadoopConf).map(_._2)
      stored.find(_.carriesCalls) match {
        case None if carrying.isEmpty => staysWithout(query)
        case None => add(query, carrying.head)
        case Some(metadata) if carrying.size < stored.count(_.carriesCalls) => remove(query, metadata)
        case _ => ()
      }
    }

  /** Spark asks for a folder of state, and for the operators that it has noted in all of those folders. */
  private def add(query: StartingQuery, node: AsyncIO): Unit = {
    def refuse(reason: String) =
      throw OperatorMetadata.refused("CARRY_OVER_ADDED", node.spec.operator, "reason" -> reason)
    if (hasOthers(query, carrying = 1)) refuse(HasOthers)
    // Spark's log of commits would have ids of then.
    val earlier = OperatorMetadata.find(only(query), query.hadoopConf)
    if (earlier.exists(_.format > 1)) refuse("it had it before, under checkpoint format 2")
    only(query).getFileSystem(query.hadoopConf).mkdirs(only(query)): Unit
  }

  private def remove(query: StartingQuery, metadata: OperatorMetadata): Unit = {
    def refuse(reason: String) =
      throw OperatorMetadata.refused("CARRY_OVER_REMOVED", metadata.operator, "reason" -> reason)
    val stored = new StoredOperators(query.state, query.nextBatch, query.ids, query.hadoopConf)
    if (CarriedCalls.areIn(stored)) refuse("calls are in flight")
    if (hasOthers(query, carrying = 0)) refuse(HasOthers)
    forget(query)
    metadata.writeGone(only(query), query.hadoopConf, query.nextBatch)
  }

  /** The query was taken back into the time before it got the operator again. */
  private def staysWithout(query: StartingQuery): Unit = for {
    latest <- OperatorMetadata.find(only(query), query.hadoopConf)
    metadata = latest.at(query.nextBatch) if latest.carriesCalls && metadata != latest
    until <- metadata.until
  } {
    forget(query)
    metadata.writeGone(only(query), query.hadoopConf, until)
  }

  /** Spark refuses to go on without an operator that it has noted. */
  private def forget(query: StartingQuery): Unit =
    only(query).getFileSystem(query.hadoopConf).delete(new Path(only(query), "_metadata"), true): Unit

  private def hasOthers(query: StartingQuery, carrying: Int): Boolean =
    query.plan.collect { case node if isStateful(node) || isCarrying(node) => node }.size > carrying ||
      StoredOperators.numbersIn(query.state, query.hadoopConf).exists(_ > 0)

  /** The folder of the only operator of a query. */
  private def only(query: StartingQuery) = new Path(query.state, "0")

  private final val HasOthers = "it has other stateful operators, which Spark tells apart by their numbers"

  private def checkTrigger(node: AsyncIO, trigger: Trigger): Unit = {
    val refused = trigger match {
      case OneTimeTrigger => Some("trigger(once=True)" -> "Use trigger(availableNow=True).")
      case trigger if Spark41.isRealTime(trigger) =>
        Some("trigger(realTime=...)" -> "Leave carry_over out: in real-time mode no row waits for another.")
      case _ => None
    }
    refused.foreach { case (what, advice) => throw unfit(node, what, advice) }
  }

  private def checkConf(node: AsyncIO, query: StartingQuery): Unit = {
    val noData = SQLConf.STREAMING_NO_DATA_MICRO_BATCHES_ENABLED
    if (!query.conf.getConf(noData))
      throw unfit(
        node,
        s"${noData.key}=false",
        s"Set ${noData.key} to true: results leave by such micro-batches."
      )
    val multiple = SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE
    if (!query.conf.getConf(multiple) && hasStatefulAfter(query.plan))
      throw unfit(
        node,
        s"${multiple.key}=false and a stateful operator after it",
        s"Set ${multiple.key} to true, so that the watermark can be held back."
      )
  }

  private def hasStatefulAfter(plan: LogicalPlan): Boolean = plan.exists { node =>
    isStateful(node) && node.children.exists(hasCarryOver)
  }

  private def isStateful(node: LogicalPlan): Boolean = node match {
    case _: Aggregate | _: Deduplicate | _: DeduplicateWithinWatermark | _: Distinct | _: KeyedProcess |
        _: FlatMapGroupsWithState | _: FlatMapGroupsInPandasWithState | _: TransformWithState |
        _: GlobalLimit =>
      node.isStreaming
    case join: Join => join.children.forall(_.isStreaming)
    case _ => Spark41.isPythonWithState(node) && node.isStreaming
  }

  private def hasCarryOver(plan: LogicalPlan): Boolean = plan.exists(isCarrying)

  private def isCarrying(plan: LogicalPlan): Boolean = plan match {
    case node: AsyncIO => node.spec.carryOver.isDefined
    case _ => false
  }

  private def checkWatermarks(plan: LogicalPlan): Unit = plan.foreach {
    case mark: EventTimeWatermark if hasCarryOver(mark.child) =>
      val node = mark.child.collectFirst {
        case async: AsyncIO if async.spec.carryOver.isDefined => async
      }.get
      throw unfit(node, "withWatermark after it", "Call withWatermark before async_io.")
    case _ => ()
  }

  private def unfit(node: AsyncIO, what: String, advice: String) =
    OperatorMetadata.refused("CARRY_OVER_UNSUPPORTED", node.spec.operator, "what" -> what, "advice" -> advice)

  override def isOurs(operator: Path, conf: Configuration): Boolean =
    OperatorMetadata.find(operator, conf).isDefined

  override def due(
      state: Path,
      version: Long,
      ids: (Long, Int) => Option[String],
      conf: Configuration
  ): QueryHooks.Due = {
    val stored = new StoredOperators(state, version, ids, conf)
    val (carried, timers) = (CarriedCalls.areIn(stored), stored.timers)
    (watermark, time) => carried || timers.areDue(DueTimes.watermark(watermark), time)
  }
}
