package io.pillarbox.spark.inspect

import scala.util.control.NonFatal

import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.checkpoint._
import io.pillarbox.state.changelog.{StateEntries, StateMeta}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.pillarbox.{CommittedBatches, SparkAdapter}

/**
 * The keyed operators of a checkpoint, with their versions and states. On the driver.
 *
 * @throws IllegalArgumentException (CHECKPOINT_UNREACHABLE) if the driver has no file system for the path
 */
private[pillarbox] final class CheckpointCatalog(session: SparkSession, checkpoint: String) {
  private val conf = SparkAdapter.hadoopConf(session)
  private val root = reached()
  private val batches = new CommittedBatches(session, checkpoint)

  /** The keyed operators by their ids; empty if there is no checkpoint. */
  lazy val operators: Seq[(Long, OperatorMetadata)] =
    StoredOperators.in(root, conf).filterNot { case (_, metadata) => metadata.carriesCalls }

  def metadata(operator: Long): OperatorMetadata = operators.toMap.apply(operator)

  /** The readable versions of an operator's state, in order: version n is the state after n micro-batches. */
  def versions(operator: Long): Seq[Long] =
    batches.ids.map(_ + 1).filter(number => isThere(operator, number))

  /**
   * Returns the version of a partition's state, with the id that its file has under checkpoint format 2, or that
   * other partitions have gone on from.
   */
  def version(operator: Long, partition: Int, number: Long): StateVersion = {
    val known = batches.stateIds(number - 1, operator).map(_.apply(partition))
    StateVersion(number, known.orElse(metadata(operator).basesOf(number).flatMap(_.apply(partition))))
  }

  /** Returns the states of a version, as its commit describes them, with those of earlier functions. */
  def states(operator: Long, number: Long): Seq[StateMeta] = {
    val files = firstOf(operator, number)
    val file = files.history.deltaOf(files.history.accepted(version(operator, 0, number)))
    val source = files.folder.pathOf(file).toString
    var found = Seq.empty[StateMeta]
    files.folder.read(file) { in =>
      StateFileFormat.read(in, source)(content => found = StateEntries.states(content, source))(_ => ())
    }
    found
  }

  def folderOf(operator: Long): Path = new Path(root, operator.toString)

  /** The files of the first partition that there was with a version. */
  private def firstOf(operator: Long, number: Long): PartitionFiles =
    new PartitionFiles(folderOf(operator), 0, metadata(operator).at(number).layout, conf)

  private def reached(): Path =
    try {
      val path = new Path(checkpoint, "state")
      path.getFileSystem(conf): Unit
      path
    } catch {
      case NonFatal(e) =>
        val told = Seq("path" -> checkpoint, "reason" -> e.getMessage)
        throw new IllegalArgumentException(
          FailureReport.of("CHECKPOINT_UNREACHABLE", "", told: _*).errorText,
          e
        )
    }

  private def isThere(operator: Long, number: Long): Boolean =
    firstOf(operator, number).isThere(version(operator, 0, number))
}
