package io.pillarbox.spark.journal

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.annotation.JsonDeserialize
import io.pillarbox.spark.journal.JournalTable.{Offset, Segment, WrittenAt}
import org.apache.spark.sql.functions.{col, lit}
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.{AnalysisException, DataFrame, Row, SparkSession}

/**
 * Which answers are deleted: those that all of it says.
 *
 * @param olderThanMs the least age of an answer
 * @param where a SQL condition on what the journal is read as
 */
private[pillarbox] final case class JournalPurge(
    path: String,
    name: Option[String],
    version: Option[String],
    @JsonDeserialize(contentAs = classOf[java.lang.Long]) olderThanMs: Option[Long],
    where: Option[String]
) {

  /**
   * Deletes the answers that are there when it begins, and returns their number: a job finds their places,
   * and the driver writes the segments anew that have one, without them. First it deletes the segments that
   * are over, whose answers it doesn't count. Jobs may write to the journal meanwhile.
   */
  def run(session: SparkSession): Long = {
    val conf = SparkAdapter.hadoopConf(session)
    val address = JournalAddress(path, name, version).qualified(conf)
    val answers = address.answers(conf)
    address.reporting("written")(answers.deleteUnread())
    val places = placesOf(session, address).buffered
    var count = 0L
    while (places.hasNext) {
      val segment = places.head.getString(0)
      val offsets = new OffsetsOf(segment, places)
      address.reporting("written")(answers.delete(segment, offsets))
      offsets.foreach(_ => ())
      count += offsets.count
    }
    count
  }

  /** The places of the answers, by segment and then in ascending order. */
  private def placesOf(session: SparkSession, address: JournalAddress): Iterator[Row] = {
    val relation = JournalRelation(session.sqlContext, address, places = true)
    val all = SparkAdapter.ofRelation(session, relation)
    val before = olderThanMs.map(age => java.time.Instant.ofEpochMilli(System.currentTimeMillis() - age))
    val old = before.fold(all)(end => all.where(col(WrittenAt) < lit(end)))
    where
      .fold(old)(meant(old, relation.table, _))
      .select(Segment, Offset)
      .repartition(col(Segment))
      .sortWithinPartitions(Segment, Offset)
      .toLocalIterator()
      .asScala
  }

  /** Those of the condition; it refuses a column that has several types, which the table lacks. */
  private def meant(answers: DataFrame, table: JournalTable, condition: String): DataFrame =
    try answers.where(condition)
    catch {
      case unresolved: AnalysisException =>
        val column = unresolved.getMessageParameters.getOrDefault("fieldName", "").replace("`", "")
        name.foreach(table.refuseDiffering(_, column))
        throw unresolved
    }
}

/** The offsets of the rows at the head of `places` that are of one segment, each once. */
private final class OffsetsOf(segment: String, places: collection.BufferedIterator[Row])
    extends Iterator[Long] {
  private var last = -1L
  var count = 0L

  override def hasNext: Boolean = {
    while (isOfSegment && places.head.getLong(1) == last) places.next()
    isOfSegment
  }

  private def isOfSegment = places.hasNext && places.head.getString(0) == segment

  override def next(): Long = {
    if (!hasNext) throw new NoSuchElementException
    last = places.next().getLong(1)
    count += 1
    last
  }
}
