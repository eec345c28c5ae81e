package io.pillarbox.spark.checkpoint

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pillarbox.Spark41.StatefulOperatorStateInfo
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.util.SerializableConfiguration

/**
 * What the driver knows of one operator in one run of a query: its metadata, and under checkpoint format 1 the
 * accepted attempt of each partition, whose file counts. On the driver, by the thread of the query.
 *
 * Within a run it is the attempt whose task Spark has taken. A run that begins finds out from the files, see
 * [[StateHistory.accepted]].
 *
 * @param operator its folder of state
 */
private[pillarbox] final class OperatorRegistry(operator: Path, conf: Configuration, runId: String) {
  private var version = -1L
  private var taken: PartitionReports[_] = _

  /** The checkpoint's metadata of a keyed operator, once it was compared with the present operator. */
  var metadata: Option[OperatorMetadata] = None

  /** True once the files of the partitions that there were before are gone. */
  @volatile var isTidy = false

  private var settings = Option.empty[Broadcast[SerializableConfiguration]]

  /** The configuration for the tasks of all micro-batches of the run: they get it once. */
  def broadcastConf(context: SparkContext): Broadcast[SerializableConfiguration] = {
    if (settings.isEmpty) settings = Some(context.broadcast(new SerializableConfiguration(conf)))
    settings.get
  }

  /** The number of the run, greater than that of each run before. It is stored. */
  lazy val run: Long = {
    val metadata = new StateFolder(OperatorMetadata.folderIn(operator), conf)
    val before = metadata.listNames().flatMap(OperatorRegistry.numberOf)
    val next = before.maxOption.getOrElse(0L) + 1
    metadata.writeNamed(OperatorRegistry.nameOf(next))(_.write(runId.getBytes(UTF_8))): Unit
    before.foreach(number => metadata.deleteNamed(OperatorRegistry.nameOf(number)))
    next
  }

  /** Returns the state that a micro-batch starts from. Reads files in the first one of a run. */
  def basesOf(version: Long, partitions: Int): IndexedSeq[StateVersion] = {
    val known =
      if (this.version == version) taken.attempts.transform((_, its) => its.id) else Map.empty[Int, String]
    val unknown = if (version == 0) Nil else (0 until partitions).filterNot(known.contains)
    val found = unknown.zip(InParallel(unknown.map(partition => () => accepted(partition, version)))).toMap
    (0 until partitions).map(partition =>
      found.getOrElse(partition, StateVersion(version, known.get(partition)))
    )
  }

  private def accepted(partition: Int, version: Long): StateVersion = {
    val folder = new StateFolder(new Path(operator, partition.toString), conf)
    new StateHistory(folder).accepted(StateVersion(version, None))
  }

  /** Notes that a micro-batch is about to write `version`, and that its tasks will report in `reports`. */
  def begins(version: Long, reports: PartitionReports[_]): Unit = {
    this.version = version
    taken = reports
  }
}

private[pillarbox] object OperatorRegistry {
  private val Name = """(\d+)\.run""".r
  private val ledgers = new ConcurrentHashMap[String, OperatorRegistry]

  def of(runId: String, operator: Path, conf: => Configuration): OperatorRegistry =
    ledgers.computeIfAbsent(s"$runId/$operator", _ => new OperatorRegistry(operator, conf, runId))

  def of(info: StatefulOperatorStateInfo, session: SparkSession): OperatorRegistry = of(
    info.queryRunId.toString,
    new Path(info.checkpointLocation, info.operatorId.toString),
    SparkAdapter.hadoopConf(session)
  )

  /** Forgets a run that has ended. */
  def close(runId: String): Unit = ledgers.keySet.removeIf(_.startsWith(s"$runId/")): Unit

  private def nameOf(run: Long) = s"$run.run"

  private def numberOf(name: String): Option[Long] = name match {
    case Name(number) => number.toLongOption
    case _ => None
  }
}
