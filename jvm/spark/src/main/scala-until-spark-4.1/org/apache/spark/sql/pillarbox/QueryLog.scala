package org.apache.spark.sql.pillarbox

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.util.Using

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.SparkSession

/**
 * One of the logs in the checkpoint of a streaming query. A micro-batch has a file with a version, and JSON
 * from the second line on. Spark's own classes would make its folder, and read no other version than the
 * session's.
 */
private final class QueryLog(session: SparkSession, folder: Path) {
  private val files = folder.getFileSystem(SparkAdapter.hadoopConf(session))

  /** The micro-batches, in order; empty if there is no log. */
  def batches: Seq[Long] =
    try files.listStatus(folder).toSeq.flatMap(_.getPath.getName.toLongOption).sorted
    catch { case _: FileNotFoundException => Nil }

  /** The second line of a micro-batch's file, if there is one. */
  def read(batch: Long): Option[JsonNode] =
    try {
      val lines = Using.resource(files.open(new Path(folder, batch.toString))) { in =>
        new String(in.readAllBytes(), UTF_8).linesIterator.toList
      }
      lines.lift(1).map(new ObjectMapper().readTree)
    } catch { case _: FileNotFoundException => None }
}

/** The micro-batches that a streaming query has finished, from its checkpoint. On the driver. */
final class CommittedBatches(session: SparkSession, checkpoint: String) {
  private val log = new QueryLog(session, new Path(checkpoint, "commits"))

  /** The ids of the micro-batches, in order; empty if there is no checkpoint. */
  def ids: Seq[Long] = log.batches

  /** The id of the state that a batch wrote in each partition of an operator, under checkpoint format 2. */
  def stateIds(batch: Long, operator: Long): Option[Seq[String]] =
    log.read(batch).flatMap { commit =>
      val ids = commit.path("stateUniqueIds").path(operator.toString)
      Option.when(ids.isArray)(ids.elements().asScala.map(_.get(0).asText).toSeq)
    }
}

/** Reads a streaming query's log of started micro-batches. On the driver. */
object BatchOffsets {

  /**
   * Returns the watermark of the sources that a micro-batch was started with, in ms; 0 for none.
   *
   * @param state the query's folder of state
   */
  def watermarkOf(session: SparkSession, state: String, batch: Long): Long =
    new QueryLog(session, new Path(new Path(state).getParent, "offsets"))
      .read(batch)
      .fold(0L)(_.path("batchWatermarkMs").asLong(0L))
}
