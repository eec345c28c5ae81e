package io.pillarbox.spark.async

import java.util.concurrent.{ConcurrentHashMap, ConcurrentSkipListMap, TimeUnit}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.sql.pillarbox.DriverMessages

/**
 * The figures of the calls of watched actions, by what tasks report. On the driver. Any thread.
 *
 * A task that is run again takes the place of the one that failed.
 */
private[pillarbox] object CallProgress extends DriverMessages.Watcher {
  private val watched = new ConcurrentHashMap[String, Stages]

  /** Keeps what is reported for a progress, by its name, as long as it asks again within ten minutes. */
  def watch(progress: String): Unit = {
    val now = System.nanoTime
    watched.computeIfAbsent(progress, _ => new Stages).askedNanos = now
    watched.values.removeIf(now - _.askedNanos > KeepNanos): Unit
  }

  /** True if anything was reported. */
  def areThere(progress: String): Boolean = Option(watched.get(progress)).exists(!_.isEmpty)

  def forget(progress: String): Unit = watched.remove(progress): Unit

  override def onReport(progress: String, operator: String, figures: Array[Long]): Unit = {
    val stages = watched.get(progress)
    if (stages != null) {
      val Array(stage, part) = figures.take(2)
      stages.computeIfAbsent((stage, operator), _ => new ConcurrentHashMap).put(part, figures): Unit
    }
  }

  /**
   * Returns the sums of a progress as a JSON list, one for each operator of each stage, in the order of
   * stages: "operator", "stage", "tasks" of the stage, "done" of them, "done_rows" of those, and "rows",
   * "calls", "retries", "errors" and "in_flight" of all.
   */
  def json(progress: String): String = {
    val sums = Option(watched.get(progress)).toSeq.flatMap(_.asScala).map { case ((stage, operator), parts) =>
      sum(stage, operator, parts.values.asScala.toSeq).asJava
    }
    new ObjectMapper().writeValueAsString(sums.asJava)
  }

  private def sum(stage: Long, operator: String, parts: Seq[Array[Long]]): Map[String, Any] = {
    val done = parts.filter(_.last == 1L)
    val sums = Sums.zipWithIndex.map { case (name, i) => name -> parts.map(_(i + PlaceSize)).sum }
    Map[String, Any](
      "operator" -> operator,
      "stage" -> stage,
      "tasks" -> parts.head(2),
      "done" -> done.size,
      "done_rows" -> done.map(_(PlaceSize)).sum
    ) ++ sums
  }

  private val KeepNanos = TimeUnit.MINUTES.toNanos(10)
  private final val PlaceSize = 3
  private val Sums = Seq("rows", "calls", "retries", "errors", "in_flight")

  /** The last reports by stage and operator, and in them by partition. */
  private final class Stages
      extends ConcurrentSkipListMap[(Long, String), ConcurrentHashMap[Long, Array[Long]]](
        Ordering[(Long, String)]
      ) {
    @volatile var askedNanos = 0L
  }
}
