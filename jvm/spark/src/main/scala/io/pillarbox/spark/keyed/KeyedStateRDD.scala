package io.pillarbox.spark.keyed

import java.time.Instant

import io.pillarbox.spark.checkpoint.{DueTimes, PartitionBase, PartitionCommits}
import io.pillarbox.spark.state.StreamStateSource
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.pillarbox.{SourceContext, StatePartition}
import org.apache.spark.{OneToOneDependency, Partition, TaskContext}

/**
 * One micro-batch of a keyed operator. Its tasks run where the partition's state is open, if Spark can place
 * them there.
 *
 * @param initial the state that a query starts with, partitioned as `rows`
 * @param eventTime the column, of rows that go out, by which stateful operators after this one find late
 *   rows; -1 if there is none
 * @param locate the executors that have a partition's state open; asked on the driver
 */
private[pillarbox] final class KeyedStateRDD(
    rows: RDD[InternalRow],
    initial: Option[RDD[InternalRow]],
    task: KeyedTaskSpec,
    eventTime: Int,
    commits: PartitionCommits[DueTimes],
    @transient private val locate: StatePartition => Seq[String]
) extends RDD[InternalRow](rows.context, (rows +: initial.toSeq).map(new OneToOneDependency(_))) {

  override protected def getPartitions: Array[Partition] = {
    val started = initial.map(_.partitions)
    rows.partitions.map { part =>
      new KeyedPartition(part, started.map(_(part.index)), commits.baseOf(part.index))
    }
  }

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    locate(commits.partitionOf(split.index))

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val parts = split.asInstanceOf[KeyedPartition]
    val source = new StreamStateSource(task.state, commits, split.index, parts.base, context)
    val started = initial.zip(parts.initial).fold(Iterator.empty[InternalRow]) { case (rdd, part) =>
      rdd.iterator(part, context)
    }
    val reading = Option.when(task.isRealTime)(new SourceContext(context))
    val query = commits.partitionOf(split.index).runId.toString
    val input = rows.iterator(parts.rows, reading.getOrElse(context))
    onTime(new KeyedIterator(task, input, source, context, started, Some(query), reading))
  }

  /**
   * Fails on a row that is late when it goes out, since the next operator would drop it silently, unless the
   * function gets late rows itself.
   */
  private def onTime(output: KeyedIterator): Iterator[InternalRow] =
    if (eventTime < 0 || task.lateWatermark == Long.MinValue) output
    else {
      val watermark = task.lateWatermark * InputRows.MicrosPerMs
      output.map { row =>
        if (!row.isNullAt(eventTime) && row.getLong(eventTime) <= watermark && !output.takesLateRows)
          throw behindWatermark(row)
        row
      }
    }

  private def behindWatermark(row: InternalRow): RuntimeException = {
    val columns = task.spec.output
    val shown = s"Row(${task.text.row(row, columns)})"
    KeyedErrors.named(
      "EVENT_TIME_BEHIND_WATERMARK",
      task.spec.name,
      "row" -> shown,
      "column" -> columns(eventTime).name,
      "watermark" -> Instant.ofEpochMilli(task.lateWatermark)
    )
  }
}

/**
 * A partition of the rows, and the one of the initial state with the same keys.
 *
 * @param base the state that the micro-batch starts from
 */
private final class KeyedPartition(
    val rows: Partition,
    val initial: Option[Partition],
    val base: PartitionBase
) extends Partition {
  override def index: Int = rows.index
}
