package io.pillarbox.spark.plan

import io.pillarbox.spark.async.carry._
import io.pillarbox.spark.async.{AsyncIOMetrics, AsyncIOTaskSpec, CarryOverSpec}
import io.pillarbox.spark.checkpoint._
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.pillarbox.Spark41._
import org.apache.spark.sql.pillarbox._
import org.apache.spark.sql.types.StructType

/**
 * Runs `node` on a stream so that calls in flight outlive a micro-batch: a stateful operator without a
 * shuffle, whose partitions are slots.
 *
 * It asks for a micro-batch without input when results wait, when a call has ended or failed since the last
 * one, when a caller that waits for the query waits for calls, and when the watermark is still on its way to
 * operators after this one.
 *
 * It keeps the columns of a row that its call or the query needs, and of a row whose call is done those alone
 * that the query needs. The others are null when the row leaves.
 *
 * @param used the places of the columns of its input that the query uses after it
 */
private[pillarbox] final case class CarryOverExec(
    node: AsyncIO,
    child: SparkPlan,
    used: Set[Int],
    stream: StreamInfo = StreamInfo()
) extends StatefulExec {
  import node.{operatorId, results, spec}

  private def options: CarryOverSpec = spec.carryOver.get

  /** The commits of the slots in the last micro-batch that this node ran. */
  @transient private lazy val reports =
    PartitionReports.register[SlotReport](sparkContext, keepsFirst = true)

  private def committed: SlotReport = reports.contents.foldLeft(SlotReport.Empty)(_ + _)

  override protected def attempts: Map[Int, StatefulExec.Attempted] = reports.attempts

  override def shortName: String = CarryOverExec.ShortName

  override def keyExpressions: Seq[Attribute] = Nil

  override def output: Seq[Attribute] = inputColumns ++ results

  private def inputColumns: Seq[Attribute] = SparkAdapter.asNullable(child.output)

  /** Operators after this one find the column of the watermark by its mark. */
  private def leaves(place: Int): Boolean =
    used(place) || inputColumns(place).metadata.contains(EventTimeWatermark.delayKey)

  /** The columns that are kept, as the run began. */
  private def keptColumns: Seq[Attribute] = ledger.kept.map(inputColumns)

  /**
   * Rows in flight have the columns of the query that took them in. If they are all that this one needs, it goes
   * on with them.
   */
  private def columnsToKeep(found: Option[OperatorMetadata], conf: Configuration): Seq[Int] = {
    val columns = inputColumns
    val needed = columns.indices.filter(at => leaves(at) || node.references.contains(columns(at)))
    def named(name: String) = columns.indices.filter(columns(_).name == name)
    val stored = for {
      metadata <- found
      columns <- metadata.columns.get(OperatorMetadata.Input)
      if columns.fieldNames.toSeq != needed.map(inputColumns(_).name)
      if columns.fieldNames.forall(named(_).sizeIs == 1)
      kept = columns.fieldNames.toSeq.flatMap(named)
      if needed.forall(kept.contains) && !isEmpty(metadata, conf)
    } yield kept
    stored.getOrElse(needed)
  }

  override def producedAttributes: AttributeSet = AttributeSet(results)

  @transient override lazy val references: AttributeSet = node.references

  override def requiredChildDistribution: Seq[Distribution] = UnspecifiedDistribution :: Nil

  override def outputPartitioning: Partitioning =
    UnknownPartitioning(stateInfo.fold(child.outputPartitioning.numPartitions)(_.numPartitions))

  override protected val pythonMetrics: Map[String, SQLMetric] =
    AsyncIOMetrics.create(
      sparkContext,
      node.spec.units
    ) -- metricDescriptions.map(_._1) - AsyncIOMetrics.OutputRows - AsyncIOMetrics.InFlight

  override protected def metricDescriptions: Seq[(String, String)] =
    CarryMetrics.descriptions ++ node.spec.units.map(unit => AsyncIOMetrics.usage(unit) -> s"$unit used")

  override protected def withStream(stream: StreamInfo): SparkPlan =
    copy(stream = stream.copy(state = stream.state.map(info => info.copy(numPartitions = slotsOf(info)))))

  /** The slots that were asked for, else those of the checkpoint, else as many as tasks run at a time. */
  private def slotsOf(info: StatefulOperatorStateInfo): Int = options.slots.getOrElse(
    CarryRegistry
      .noteOf(info.queryRunId.toString, info.operatorId)
      .orElse(
        OperatorMetadata
          .find(new Path(info.checkpointLocation, info.operatorId.toString), hadoopConf)
          .map(_.at(info.storeVersion))
      )
      .fold(sparkContext.defaultParallelism)(_.partitions)
  )

  private def hadoopConf: Configuration = SparkAdapter.hadoopConf(session)

  private def ledger: CarryRegistry = {
    val info = getStateInfo
    CarryRegistry.of(info.queryRunId.toString, info.operatorId) {
      val metadata = new StateFolder(OperatorMetadata.folderIn(folder), hadoopConf)
      new CarryRegistry(metadata, session, info.checkpointLocation)
    }
  }

  override protected def checkCheckpoint(conf: Configuration): Unit = {
    val info = getStateInfo
    val found = OperatorMetadata
      .find(folder, conf)
      .map(_.at(info.storeVersion))
      .filterNot(_.isGone(info.storeVersion))
    ledger.kept = columnsToKeep(found, conf)
    val metadata = OperatorMetadata(
      OperatorMetadata.AsyncIO,
      spec.name,
      info.numPartitions,
      OperatorMetadata.formatOf(hasIds),
      Map(OperatorMetadata.Input -> keptColumns, OperatorMetadata.Returns -> results).map {
        case (what, columns) =>
          what -> OperatorMetadata.columnsOf(DataTypeUtils.fromAttributes(columns))
      },
      callScope = CallIdentity.scopeOfQuery(spec, operatorId, MicroBatches.beingPlanned(session)),
      leaving = Seq(
        OperatorMetadata.Leaving(info.storeVersion, ledger.kept.indices.filter(at => leaves(ledger.kept(at))))
      )
    )
    // Spark compares each partition's id with the one that it knows.
    val most = if (hasIds) info.stateStoreCkptIds.fold(Int.MaxValue)(_.length) else Int.MaxValue
    ledger.metadata = Some(
      metadata.checkAndWrite(folder, conf, info.storeVersion, most)(clearIfEmpty(_, conf))
    )
  }

  /**
   * Returns true if no slot holds anything in the version that the query goes on from. If so, other slots' files
   * of later versions than the first with `found` are deleted: they are of a history that was taken back.
   */
  private def clearIfEmpty(found: OperatorMetadata, conf: Configuration): Boolean = {
    val empty = isEmpty(found, conf)
    if (empty)
      StoredOperators.numbersIn(folder, conf).filter(_ >= found.partitions).map(slot(_, conf)).foreach {
        other =>
          other.list().filter(_.version > found.since).foreach(other.delete)
      }
    empty
  }

  private def isEmpty(found: OperatorMetadata, conf: Configuration): Boolean = {
    val stored = PartitionCommits.versionsOf(getStateInfo, hasIds)
    (0 until found.partitions).forall { number =>
      !CarriedCalls.holds(found, slot(number.toLong, conf), stored(number))
    }
  }

  private def slot(number: Long, conf: Configuration) =
    new StateFolder(new Path(folder, number.toString), conf)

  /** The metadata, which was checked when the run began. */
  private def metadata: OperatorMetadata = ledger.metadata.get

  override def shouldRunAnotherBatch(newInputWatermark: Long): Boolean = {
    val report = committed
    report.results > 0 ||
    ledger.isDue(getStateInfo.storeVersion + 1, report.inFlight > 0) ||
    (report.inFlight > 0 && isAwaited && {
      ledger.askToDrain()
      true
    }) ||
    (feedsStateful && eventTimeWatermarkForEviction.exists(newInputWatermark > _))
  }

  /** True if nothing goes on by itself before the calls in flight are done. */
  private def isAwaited: Boolean = {
    val run = getStateInfo.queryRunId
    RunningQueries.endsByItself(run) || RunningQueries.isAwaited(run)
  }

  /** Spark numbers stateful operators from the sink on. */
  private def feedsStateful: Boolean = getStateInfo.operatorId > 0

  /** Called after this node has run, for the next micro-batch, and before a restarted query's first one. */
  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] = Some {
    val version = getStateInfo.storeVersion
    eventTimeWatermarkForEviction match {
      case Some(input) => ledger.advance(version + 1, input, committed.holdMicros)
      case None => ledger.restart(version)
    }
  }

  override protected def stringArgs: Iterator[Any] = spec.summary.iterator ++ stream.shown

  override protected def doExecute(): RDD[InternalRow] = {
    val info = getStateInfo
    DriverEnd.serve(sparkContext)
    val drain = ledger.batchStarts()
    if (feedsStateful && eventTimes.nonEmpty) ledger.write(info.storeVersion, conf.minBatchesToRetain)
    val (known, next) = (ledger, info.storeVersion + 1)
    new CarryRDD(
      child.execute(),
      info.numPartitions,
      task(drain),
      StatePartition.locator(session),
      () => known.begins(next)
    )
  }

  private def task(drain: CarryRegistry.Drain): CarryTaskSpec = CarryTaskSpec(
    calls,
    columns,
    options.maxLagMs,
    eventTimes,
    eventTimeWatermarkForLateEvents.getOrElse(0L),
    metadata.since,
    drain,
    PartitionCommits.of(getStateInfo, session, conf, reports, hasIds),
    metrics
  )

  /** The description without metrics, which the tasks add. */
  private def calls: AsyncIOTaskSpec = {
    val batch = MicroBatches.current(sparkContext)
    AsyncIOTasks.of(node, keptColumns, session, batch, metadata.callScope, Map.empty)
  }

  private def columns: CarriedColumns =
    CarriedColumns(
      DataTypeUtils.fromAttributes(inputColumns),
      ledger.kept,
      ledger.kept.map(leaves),
      DataTypeUtils.fromAttributes(results)
    )

  /** The event times in µs, bound to the input; for a column of windows their end. */
  private def eventTimes: Seq[Expression] =
    keptColumns.filter(_.metadata.contains(EventTimeWatermark.delayKey)).map { column =>
      val time = column.dataType match {
        case _: StructType => GetStructField(column, 1)
        case _ => column
      }
      BindReferences.bindReference(time: Expression, AttributeSeq(keptColumns))
    }

  override protected def doCanonicalize(): SparkPlan =
    copy(node = node.canonicalized.asInstanceOf[AsyncIO], child = child.canonicalized)

  override protected def withNewChildInternal(newChild: SparkPlan): CarryOverExec = copy(child = newChild)
}

private[pillarbox] object CarryOverExec {

  /** The operator's name in the query's progress and in the checkpoint's metadata. */
  final val ShortName = "pillarboxAsyncIO"
}
