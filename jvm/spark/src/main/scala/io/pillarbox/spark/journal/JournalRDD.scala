package io.pillarbox.spark.journal

import scala.collection.mutable

import io.pillarbox.metered.journal.{SegmentAnswers, StoredAnswer}
import io.pillarbox.spark.async.OperatorColumns
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.SerializableConfiguration
import org.apache.spark.{Partition, SparkContext, TaskContext}

/** Segments that one task reads. */
private final case class SegmentsPartition(index: Int, segments: Seq[String]) extends Partition

/** The answers of segments as rows. */
private final class JournalRDD(
    context: SparkContext,
    address: JournalAddress,
    groups: Seq[Seq[String]],
    columns: StructType,
    hadoopConf: Broadcast[SerializableConfiguration]
) extends RDD[InternalRow](context, Nil) {

  override protected def getPartitions: Array[Partition] =
    groups.zipWithIndex.map { case (segments, index) => SegmentsPartition(index, segments) }.toArray

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val answers = address.answers(hadoopConf.value.value)
    var open: SegmentAnswers = null
    context.addTaskCompletionListener[Unit](_ => if (open != null) open.close())
    val layouts = mutable.HashMap.empty[String, Option[AnswerLayout]]
    split.asInstanceOf[SegmentsPartition].segments.iterator.flatMap { segment =>
      if (open != null) open.close()
      open = address.reporting("read")(answers.read(segment))
      val source = open
      reported(source).flatMap { answer =>
        layouts
          .getOrElseUpdate(answer.operator, layoutOf(answer.operator))
          .iterator
          .flatMap(_.rows(answer, segment))
      }
    }
  }

  private def layoutOf(operator: String): Option[AnswerLayout] = {
    val known = OperatorColumns.parse(operator)
    val isMeant = address.name.forall(_ == known.name) && address.version.forall(known.version.contains)
    Option.when(isMeant)(new AnswerLayout(known, columns))
  }

  private def reported(source: Iterator[StoredAnswer]): Iterator[StoredAnswer] = new Iterator[StoredAnswer] {
    override def hasNext: Boolean = source.hasNext
    override def next(): StoredAnswer = address.reporting("read")(source.next())
  }
}
