package io.pillarbox.spark.plan

import io.pillarbox.spark.async.KeyedCallMetrics
import io.pillarbox.spark.checkpoint._
import io.pillarbox.spark.keyed._
import io.pillarbox.spark.state.StateMaintenance
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.pillarbox.Spark41.StatefulOperatorStateInfo
import org.apache.spark.sql.pillarbox._

/**
 * Runs `node` on a stream: a stateful operator with state of this library.
 *
 * State info and watermarks come from the query's IncrementalExecution. The node asks for a micro-batch
 * without input only when a timer is due.
 *
 * @param isRealTime true in real-time mode, where the shuffle hands over each row as it comes
 */
private[pillarbox] final case class KeyedProcessExec(
    node: KeyedProcess,
    child: SparkPlan,
    stream: StreamInfo = StreamInfo(),
    isRealTime: Boolean = false
) extends StatefulExec {
  import node.{hasWatermark, initial, keys, orderBy, results, spec}

  /** Of two jobs for a micro-batch the last one counts: its rows are the newest, and its state is open. */
  @transient private lazy val reports =
    PartitionReports.register[DueTimes](sparkContext, keepsFirst = false)

  override protected def attempts: Map[Int, StatefulExec.Attempted] = reports.attempts

  override def shortName: String = KeyedProcessExec.ShortName

  /** Spark's own would come for any form, with a second "number of output rows" that nobody counts. */
  override protected val pythonMetrics: Map[String, SQLMetric] =
    KeyedMetrics.ofPython(node.factory, sparkContext) ++ KeyedMetrics.ofTimers(sparkContext)

  override def keyExpressions: Seq[Attribute] = keys

  override def output: Seq[Attribute] = results

  override def producedAttributes: AttributeSet = AttributeSet(results)

  @transient override lazy val references: AttributeSet = child.outputSet

  override def outputPartitioning: Partitioning = UnknownPartitioning(child.outputPartitioning.numPartitions)

  override def requiredChildOrdering: Seq[Seq[SortOrder]] =
    if (orderBy.isEmpty || spec.timeSorted) Seq(Nil)
    else (keys ++ orderBy).map(SortOrder(_, Ascending)) :: Nil

  override protected def metricDescriptions: Seq[(String, String)] =
    KeyedMetrics.descriptions ++ node.calls.toSeq.flatMap(calls => KeyedCallMetrics.descriptions(calls.units))

  /**
   * Called between micro-batches. Event-time timers are due by the watermark to come, processing-time timers
   * by the clock that the next micro-batch will be stamped with.
   */
  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean =
    reports.contents
      .foldLeft(DueTimes.Never)(_ min _)
      .areDue(watermarkOf(Some(newInputWatermark)), System.currentTimeMillis)

  override protected def withStream(stream: StreamInfo): SparkPlan =
    copy(stream =
      stream.copy(state = stream.state.map(info => info.copy(numPartitions = partitionsOf(info))))
    )

  /** The partitions that were asked for, else those of the checkpoint, else as many as Spark's. */
  private def partitionsOf(info: StatefulOperatorStateInfo): Int = {
    val ledger = OperatorRegistry.of(info, session)
    ledger.metadata
      .map(_.partitions)
      .orElse(spec.partitions)
      .orElse(AskedPartitions.of(info.queryRunId).number)
      .orElse(storedNote(info).map(_.partitions))
      .getOrElse(info.numPartitions)
  }

  private def storedNote(info: StatefulOperatorStateInfo): Option[OperatorMetadata] =
    OperatorMetadata
      .find(new Path(info.checkpointLocation, info.operatorId.toString), SparkAdapter.hadoopConf(session))
      .map(_.at(info.storeVersion))

  private def ledger: OperatorRegistry = OperatorRegistry.of(getStateInfo, session)

  override protected def checkCheckpoint(conf: Configuration): Unit = {
    modeOfAggregationBefore.foreach { mode =>
      throw KeyedErrors.refused("AGGREGATION_BEFORE_KEYED", spec.name, "mode" -> mode)
    }
    val (info, version) = (getStateInfo, getStateInfo.storeVersion)
    val metadata = OperatorMetadata(
      spec.form,
      spec.name,
      info.numPartitions,
      OperatorMetadata.formatOf(hasIds),
      Map(OperatorMetadata.Keys -> OperatorMetadata.columnsOf(DataTypeUtils.fromAttributes(keys))),
      spec.timeSorted
    )
    ledger.metadata = Some(
      metadata.checkAndWrite(folder, conf, version, basesOf = stateIn)(_ => version == 0)
    )
  }

  /** Returns the ids of the files that other partitions go on from, each of which is there. */
  private def stateIn(found: OperatorMetadata): Seq[Option[String]] = {
    val info = getStateInfo
    checkMove(found)
    val versions =
      if (hasIds)
        (0 until found.partitions).map(PartitionCommits.versionsOf(info, withIds = true))
      else ledger.basesOf(info.storeVersion, found.partitions)
    versions.zipWithIndex.find(_._1.id.isEmpty).foreach { case (version, number) =>
      val partition = new StateFolder(new Path(folder, number.toString), SparkAdapter.hadoopConf(session))
      throw partition.missing(s"${version.number}.delta", s"State in ${info.numPartitions} partitions")
    }
    versions.map(_.id)
  }

  /** Refuses other partitions where they can't be had. */
  private def checkMove(found: OperatorMetadata): Unit = {
    val strict = SQLConf.STATEFUL_OPERATOR_USE_STRICT_DISTRIBUTION
    val reason =
      if (AskedPartitions.of(getStateInfo.queryRunId).besideSpark)
        Some("the query has stateful operators of Spark, whose number can't change")
      else if (!conf.getConf(strict)) Some(s"${strict.key} is false, so keys may be in any partition")
      else None
    reason.foreach { why =>
      val asked = spec.partitions.fold(SQLConf.SHUFFLE_PARTITIONS.key)(_ => "partitions")
      val numbers = Seq("found" -> found.partitions, "wanted" -> getStateInfo.numPartitions)
      throw KeyedErrors.refused(
        "PARTITIONS_FIXED",
        spec.name,
        Seq("path" -> folder, "option" -> asked, "reason" -> why) ++ numbers: _*
      )
    }
  }

  override protected def stringArgs: Iterator[Any] = node.summary.iterator ++ stream.shown

  override protected def doExecute(): RDD[InternalRow] = {
    // Spark's classes make metrics lazily, and this is the last moment on the driver.
    val sqlMetrics = metrics
    if (isRealTime) RealTimeMode.checkOthers(sparkContext)(_.isInstanceOf[KeyedProcessExec])
    val info = getStateInfo
    val layout = ledger.metadata.map(_.layout)
    val commits = PartitionCommits.of(info, session, conf, reports, hasIds, layout)
    deleteEarlier(commits)
    // As with Spark's transformWithState, a query that goes on from a checkpoint has its state already.
    val initialRows = initial.filter(_ => info.storeVersion == 0).map(_.rows(info.numPartitions))
    val lateWatermark = watermarkOf(eventTimeWatermarkForLateEvents)
    val watermark = watermarkOf(eventTimeWatermarkForEviction)
    DriverEnd.serve(sparkContext)
    val columns = if (spec.timeSorted) SparkAdapter.asNullable(child.output) else child.output
    val task = KeyedCalls
      .added(node, node.batchTask(columns, conf, sqlMetrics), session)
      .copy(
        isBatch = false,
        hasWatermark = hasWatermark,
        lateWatermark = lateWatermark,
        watermark = watermark,
        initial = initialRows.map(_.layout),
        isLate = isLate(lateWatermark, watermark),
        isRealTime = isRealTime
      )
    new KeyedStateRDD(
      child.execute(),
      initialRows.map(_.rows),
      task,
      results.indexWhere(KeyedPlanner.isEventTime),
      commits,
      StatePartition.locator(session)
    )
  }

  /** In the background, now and then: deletes files of partitions that there were before. */
  private def deleteEarlier(commits: PartitionCommits[DueTimes]): Unit = {
    val (version, settings) = (getStateInfo.storeVersion, commits.settings)
    val isDue = commits.layout.earlier.isDefined && version % settings.snapshotEvery == 0
    if (isDue && !ledger.isTidy) {
      val (known, path, oldest) = (ledger, folder, version - settings.versionsToRetain)
      val files = new EarlierFiles(path, commits.layout, SparkAdapter.hadoopConf(session))
      StateMaintenance.later(s"delete the files of earlier partitions in $path") {
        known.isTidy = files.deleteBefore(oldest, version, commits.baseOf(_).version)
      }
    }
  }

  /** In real-time mode timers fire before the rows, so that those behind the new watermark are late, too. */
  private def isLate(lateWatermark: Long, watermark: Long): Option[Expression] =
    if (isRealTime) watermarkExpressionForEviction.filter(_ => watermark != Long.MinValue)
    else watermarkExpressionForLateEvents.filter(_ => lateWatermark != Long.MinValue)

  private def watermarkOf(known: Option[Long]): Long =
    known.filter(_ => hasWatermark).fold(Long.MinValue)(DueTimes.watermark)

  override protected def doCanonicalize(): SparkPlan =
    copy(node = node.canonicalized.asInstanceOf[KeyedProcess], child = child.canonicalized)

  override protected def withNewChildInternal(newChild: SparkPlan): KeyedProcessExec = copy(child = newChild)
}

private[pillarbox] object KeyedProcessExec {

  /** The operator's name in the query's progress and in the checkpoint's metadata. */
  final val ShortName = "pillarboxKeyedProcess"
}
