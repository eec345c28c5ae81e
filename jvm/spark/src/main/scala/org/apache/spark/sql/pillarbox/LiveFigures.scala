package org.apache.spark.sql.pillarbox

import java.util.concurrent.ConcurrentHashMap
import java.util.{ArrayDeque, TreeMap => JTreeMap}

import scala.jdk.CollectionConverters._

/**
 * What the tab shows of operators by their numbers only while the application runs: keys may be personal data,
 * so they are in memory alone. Thread-safe.
 *
 * @param nowMs the present time in ms
 */
private[spark] final class LiveFigures(nowMs: () => Long = () => System.nanoTime / 1000000) {
  private val windows = new ConcurrentHashMap[Long, LatencyWindow]
  private val hottest = new ConcurrentHashMap[Long, ConcurrentHashMap[Int, (Long, HottestKey)]]

  def take(operator: Long, report: OperatorReport): Unit = report match {
    case calls: CallLatencies =>
      windows.computeIfAbsent(operator, _ => new LatencyWindow).add(nowMs(), calls.counts)
    case key: HottestKey =>
      hottest.computeIfAbsent(operator, _ => new ConcurrentHashMap).put(key.partition, nowMs() -> key): Unit
  }

  def forget(operator: Long): Unit = {
    windows.remove(operator)
    hottest.remove(operator): Unit
  }

  /** The latencies of an operator's calls in the last minutes, if it had any. */
  def latencies(operator: Long): Option[Latencies] =
    Option(windows.get(operator)).map(_.at(nowMs())).filter(_.total > 0)

  /**
   * The key with most rows in some of an operator's partitions, and its share of these partitions' rows, by
   * what they have reported in the last minutes.
   */
  def hottestKey(operator: Long, partitions: Set[Int]): Option[(String, Double)] = {
    val oldest = nowMs() - LiveFigures.KeptMs
    val kept = Option(hottest.get(operator)).toSeq.map(_.values)
    kept.foreach(_.removeIf(_._1 <= oldest))
    val reports = kept
      .flatMap(_.asScala.map(_._2))
      .filter(report => partitions(report.partition))
    val all = reports.map(_.of).sum
    reports
      .maxByOption(_.rows)
      .map(most => most.key -> most.rows / all)
      .filter(_._2 >= LiveFigures.LeastShare)
  }
}

private object LiveFigures {

  /** A key with a smaller share of the rows is not shown. */
  private final val LeastShare = 0.05
  private final val KeptMs = 300000L
}

/** Latencies of the last five minutes, in slices of ten seconds. Thread-safe. */
private final class LatencyWindow {
  import LatencyWindow._

  private val slices = new ArrayDeque[Slice]

  /** Adds what a report has, see [[CallLatencies]]. */
  def add(nowMs: Long, counts: Array[Long]): Unit = synchronized {
    val number = nowMs / SliceMs
    dropBefore(number)
    if (slices.isEmpty || slices.getLast.number != number) slices.add(new Slice(number))
    for (at <- counts.indices by 3)
      slices.getLast.add(LatencyRange(counts(at), counts(at + 1), counts(at + 2)))
  }

  def at(nowMs: Long): Latencies = synchronized {
    dropBefore(nowMs / SliceMs)
    val all = new Slice(0L)
    slices.forEach(_.ranges.values.forEach(all.add(_)))
    new Latencies(all.ranges.values.asScala.toIndexedSeq)
  }

  private def dropBefore(number: Long): Unit =
    while (!slices.isEmpty && slices.getFirst.number <= number - Slices) slices.removeFirst(): Unit
}

private object LatencyWindow {
  private final val SliceMs = 10000L
  private final val Slices = 30L

  private final class Slice(val number: Long) {
    val ranges = new JTreeMap[Long, LatencyRange]

    def add(more: LatencyRange): Unit = {
      val before = Option(ranges.get(more.from)).fold(0L)(_.count)
      ranges.put(more.from, more.copy(count = before + more.count)): Unit
    }
  }
}

/** The number of answers that came `from` microseconds after their attempt, and before `until`. */
private[spark] final case class LatencyRange(from: Long, until: Long, count: Long)

/** @param ranges those that have answers, in their order */
private[spark] final class Latencies(val ranges: IndexedSeq[LatencyRange]) {
  val total: Long = ranges.map(_.count).sum

  /** The latency in ms that this part of all answers was not above, about. There must be one. */
  def quantile(part: Double): Double = {
    val rank = math.max(1L, math.ceil(part * total).toLong)
    val upTo = ranges.scanLeft(0L)(_ + _.count)
    val at = upTo.indexWhere(_ >= rank) - 1
    val range = ranges(at)
    (range.from + (range.until - range.from) * (rank - upTo(at)).toDouble / range.count) / 1000
  }
}
