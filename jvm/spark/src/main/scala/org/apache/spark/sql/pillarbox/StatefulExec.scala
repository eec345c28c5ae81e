package org.apache.spark.sql.pillarbox

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.physical.Distribution
import org.apache.spark.sql.catalyst.rules.{RuleId, UnknownRuleId}
import org.apache.spark.sql.catalyst.trees.TreePatternBits
import org.apache.spark.sql.execution.streaming.state.StateSchemaValidationResult
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.pillarbox.Spark41._
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.util.CollectionAccumulator

/**
 * A stateful node that gets its state info and its watermarks from `IncrementalExecution`, which passes them
 * only to classes that it knows.
 *
 * Its rules run on a mirror of this node of such a class, and the values that they fill in are copied back.
 * Rules that know this node (as a StateStoreWriter) run on it directly. Written for Spark 4.2.
 */
trait StatefulExec extends UnaryExecNode with StateStoreWriter with WatermarkSupport {

  /** The values that the rules have filled in so far. */
  def stream: StreamInfo

  override final def stateInfo: Option[StatefulOperatorStateInfo] = stream.state
  override final def eventTimeWatermarkForLateEvents: Option[Long] = stream.lateEvents
  override final def eventTimeWatermarkForEviction: Option[Long] = stream.eviction

  /** Returns this node with the values of the mirror. */
  protected def withStream(stream: StreamInfo): SparkPlan

  protected def folder: Path = new Path(getStateInfo.checkpointLocation, getStateInfo.operatorId.toString)

  /**
   * Compares the checkpoint of an earlier run of the query with this one, before any data are touched, and
   * leaves a note for later ones. On the driver, once a run.
   */
  protected def checkCheckpoint(conf: Configuration): Unit

  /** The names and descriptions of the operator's own metrics in a query's progress. */
  protected def metricDescriptions: Seq[(String, String)]

  override protected def customStatefulOperatorMetrics: Seq[StatefulOperatorCustomMetric] =
    metricDescriptions.map { case (name, description) => StatefulOperatorCustomSumMetric(name, description) }

  /** The partitions whose tasks Spark has taken in this micro-batch. */
  protected def partitionsDone: Set[Int]

  /** The partitions that nobody has asked for, or that have failed without the query. */
  private def partitionsLeft: Seq[Int] = (0 until getStateInfo.numPartitions).filterNot(partitionsDone)

  final def isDone: Boolean = partitionsLeft.isEmpty

  /** True if some partitions are done, and others are not. */
  final def isPartlyDone: Boolean = partitionsDone.nonEmpty && !isDone

  /** Runs what is left of this micro-batch; its rows go nowhere. On the thread of the query. */
  final def finish(): Unit = {
    val left = partitionsLeft
    if (left.nonEmpty) sparkContext.runJob(execute(), StatefulExec.drain, left): Unit
  }

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = {
    checkCheckpoint(hadoopConf)
    List(StateSchemaValidationResult(evolvedSchema = false, folder.toString))
  }

  override def requiredChildDistribution: Seq[Distribution] =
    StatefulOperatorPartitioning.getCompatibleDistribution(keyExpressions, getStateInfo, conf) :: Nil

  override def transformDownWithPruning(cond: TreePatternBits => Boolean, ruleId: RuleId = UnknownRuleId)(
      rule: PartialFunction[SparkPlan, SparkPlan]
  ): SparkPlan =
    if (!cond(this) || !isIncomplete || rule.isDefinedAt(this))
      super.transformDownWithPruning(cond, ruleId)(rule)
    else {
      val mirror = newMirror()
      rule.applyOrElse(mirror, identity[SparkPlan]) match {
        case filled: StreamingDeduplicateExec if filled ne mirror =>
          val changed = withStream(
            StreamInfo(
              filled.stateInfo,
              filled.eventTimeWatermarkForLateEvents,
              filled.eventTimeWatermarkForEviction
            )
          )
          changed.copyTagsFrom(this)
          changed.mapChildren(_.transformDownWithPruning(cond, ruleId)(rule))
        case _ => super.transformDownWithPruning(cond, ruleId)(rule)
      }
    }

  /**
   * The output mode of a streaming aggregation that sends this node intermediate values, as modes other than
   * append do. Known once `IncrementalExecution` has prepared the plan.
   */
  protected def modeOfAggregationBefore: Option[String] = child
    .collect {
      case save: StateStoreSaveExec => save.outputMode
      case save: SessionWindowStateStoreSaveExec => save.outputMode
    }
    .flatten
    .find(_ != OutputMode.Append)
    .map(_.toString.toLowerCase(java.util.Locale.ROOT))

  /** Reports the checkpoints that partitions have written. To be captured on the driver. */
  protected def checkpointReport: StatefulExec.CheckpointReport = new StatefulExec.CheckpointReport(
    if (StatefulOperatorStateInfo.enableStateStoreCheckpointIds(conf)) checkpointInfoAccumulator else null
  )

  private def isIncomplete: Boolean = stateInfo.isEmpty || eventTimeWatermarkForEviction.isEmpty

  private def newMirror(): StreamingDeduplicateExec = new StreamingDeduplicateExec(
    keyExpressions,
    child,
    stateInfo,
    eventTimeWatermarkForLateEvents,
    eventTimeWatermarkForEviction
  )
}

/**
 * The values of a stateful node that `IncrementalExecution` fills in for a micro-batch.
 *
 * @param lateEvents the watermark in ms by which rows are late
 * @param eviction the watermark in ms by which timers fire and state goes
 */
final case class StreamInfo(
    state: Option[StatefulOperatorStateInfo] = None,
    lateEvents: Option[Long] = None,
    eviction: Option[Long] = None
) {

  /** The values as `explain()` shows them. */
  def shown: Iterator[Any] = state.iterator ++ lateEvents.map(ms => s"lateEvents=$ms") ++
    eviction.map(ms => s"eviction=$ms")
}

object StatefulExec {
  private val drain: Iterator[InternalRow] => Unit = _.foreach(_ => ())

  /** Sent to the tasks. Does nothing under checkpoint format 1. */
  final class CheckpointReport(ids: CollectionAccumulator[StatefulOpStateStoreCheckpointInfo])
      extends Serializable {

    def withIds: Boolean = ids != null

    /** Reports a commit. Task thread, after the commit of `version`. */
    def add(partition: Int, version: Long, id: Option[String], base: Option[String]): Unit =
      if (ids != null)
        ids.add(StatefulOpStateStoreCheckpointInfo(partition, version, id.map(Array(_)), base.map(Array(_))))
  }
}
