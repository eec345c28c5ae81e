package io.pillarbox.spark.async.carry

import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

/**
 * What the slots of a micro-batch have committed. Of several attempts of one slot the first that Spark hears
 * of counts, as with the ids of checkpoint format 2.
 */
private[pillarbox] final class SlotReports private
    extends AccumulatorV2[(Int, SlotReport), Map[Int, SlotReport]] {
  @volatile private var reports = Map.empty[Int, SlotReport]

  def results: Long = reports.valuesIterator.map(_.results).sum

  def inFlight: Long = reports.valuesIterator.map(_.inFlight.toLong).sum

  /** The event time behind which the output watermark stays, in µs; `Long.MaxValue` for none. */
  def holdMicros: Long = reports.valuesIterator.map(_.holdMicros).foldLeft(Long.MaxValue)(math.min)

  override def isZero: Boolean = reports.isEmpty

  override def copy(): SlotReports = {
    val copy = new SlotReports
    copy.reports = reports
    copy
  }

  override def reset(): Unit = reports = Map.empty

  override def add(report: (Int, SlotReport)): Unit = if (!reports.contains(report._1)) reports += report

  override def merge(other: AccumulatorV2[(Int, SlotReport), Map[Int, SlotReport]]): Unit =
    other.value.foreach(add)

  override def value: Map[Int, SlotReport] = reports
}

private[pillarbox] object SlotReports {
  def register(sc: SparkContext): SlotReports = {
    val reports = new SlotReports
    sc.register(reports)
    reports
  }
}
