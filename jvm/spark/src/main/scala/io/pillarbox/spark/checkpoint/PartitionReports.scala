package io.pillarbox.spark.checkpoint

import org.apache.spark.SparkContext
import org.apache.spark.sql.pillarbox.StatefulExec.Attempted
import org.apache.spark.util.AccumulatorV2

/** The report of a task after its commit. */
private[pillarbox] final case class PartitionReport[+A](attempt: Attempted, content: A)

/**
 * The reports, by partition, of the tasks that Spark has accepted in the last micro-batch that a node ran. A
 * partition that has not run has none.
 *
 * @param keepsFirst
 *   true if of several attempts of a partition the first that Spark hears of counts, else the last
 */
private[pillarbox] final class PartitionReports[A] private (keepsFirst: Boolean)
    extends AccumulatorV2[(Int, PartitionReport[A]), Map[Int, PartitionReport[A]]] {
  @volatile private var reports = Map.empty[Int, PartitionReport[A]]

  /** The attempts that count, by partition. */
  def attempts: Map[Int, Attempted] = reports.transform((_, report) => report.attempt)

  /** The reports without the ids of attempts. */
  def contents: Iterator[A] = reports.valuesIterator.map(_.content)

  override def isZero: Boolean = reports.isEmpty

  override def copy(): PartitionReports[A] = {
    val copy = new PartitionReports[A](keepsFirst)
    copy.reports = reports
    copy
  }

  override def reset(): Unit = reports = Map.empty

  override def add(report: (Int, PartitionReport[A])): Unit =
    if (!keepsFirst || !reports.contains(report._1)) reports += report

  override def merge(
      other: AccumulatorV2[(Int, PartitionReport[A]), Map[Int, PartitionReport[A]]]
  ): Unit = other.value.foreach(add)

  override def value: Map[Int, PartitionReport[A]] = reports
}

private[pillarbox] object PartitionReports {

  /** Makes reports. On the driver. */
  def register[A](sc: SparkContext, keepsFirst: Boolean): PartitionReports[A] = {
    val reports = new PartitionReports[A](keepsFirst)
    sc.register(reports)
    reports
  }
}
