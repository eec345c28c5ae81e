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

/**
 * A stateful node that gets its state info and its watermarks from `IncrementalExecution`, which passes them
 * only to classes that it knows.
 *
 * Its rules run on a mirror of this node of such a class, and the values that they fill in are copied back.
 * Rules that know this node (as a StateStoreWriter) run on it directly. Written for Spark 4.2.
 */
trait StatefulExec extends UnaryExecNode with StateStoreWriter with WatermarkSupport {
  import StatefulExec.Attempted

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

  /** The attempts that count in this micro-batch, by partition: of tasks that Spark has taken. */
  protected def attempts: Map[Int, StatefulExec.Attempted]

  /** The partitions that nobody has asked for, or that have failed without the query. */
  private def partitionsLeft: Seq[Int] = (0 until getStateInfo.numPartitions).filterNot(attempts.contains)

  final def isDone: Boolean = partitionsLeft.isEmpty

  /** True if some partitions are done, and others are not. */
  final def isPartlyDone: Boolean = attempts.nonEmpty && !isDone

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

  /** True under checkpoint format 2, where Spark names the attempts that count in its log of commits. */
  protected def hasIds: Boolean = StatefulOperatorStateInfo.enableStateStoreCheckpointIds(conf)

  /** What Spark writes into its log: the attempts that count here. Its own nodes take the first of each partition. */
  override def getStateStoreCheckpointInfo(): Array[StatefulOpStateStoreCheckpointInfo] = {
    val (taken, all) = (attempts, getStateInfo.numPartitions)
    assert(taken.size == all, s"CheckpointInfo length: ${taken.size}, numPartitions: $all")
    Array.tabulate(all) { partition =>
      val Attempted(id, base) = taken(partition)
      val version = getStateInfo.storeVersion + 1
      StatefulOpStateStoreCheckpointInfo(partition, version, Some(Array(id)), base.map(Array(_)))
    }
  }

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

  /**
   * An attempt of a task that has committed.
   *
   * @param id as in the name of its file
   * @param base the id of the version that it went on from, as Spark knows it
   */
  final case class Attempted(id: String, base: Option[String])
}
