package io.pillarbox.spark.async

import java.util.concurrent.{ConcurrentHashMap, ConcurrentSkipListMap, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import io.pillarbox.async.AsyncMetrics
import org.apache.spark.sql.pillarbox.DriverMessages

/**
 * The figures of the calls of watched actions, by what tasks report. On the driver. Any thread.
 *
 * A task that is run again takes the place of the one that failed, and none that of one that is done.
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
      val Array(stage, node, part) = figures.take(PlaceSize - 1)
      stages.computeIfAbsent((stage, node, operator), _ => new Parts).add(part, figures)
    }
  }

  override def onStageEnd(stage: Long): Unit = watched.values.forEach { stages =>
    stages.forEach { case ((number, _, _), parts) => if (number == stage) parts.ended = true }
  }

  /**
   * Returns the sums of a progress as a JSON list, one for each operator of each stage, in the order of
   * stages: "operator", "node" (its number), "stage", "ended" if that has, "tasks" of the stage, the
   * partitions that are "done", "done_rows" of those, and "rows", "calls", "retries", "errors" and "in_flight"
   * of all.
   */
  def json(progress: String): String = {
    val sums =
      Option(watched.get(progress)).toSeq.flatMap(_.asScala).map { case ((stage, node, operator), parts) =>
        val place =
          Map[String, Any]("stage" -> stage, "node" -> node, "operator" -> operator, "ended" -> parts.ended)
        (place ++ parts.sums).asJava
      }
    new ObjectMapper().writeValueAsString(sums.asJava)
  }

  /** Returns the place of a task's figures, which begins each of its reports. */
  def place(stage: Int, node: Long, part: Int, tasks: Int): Array[Long] =
    Array(stage.toLong, node, part.toLong, tasks.toLong)

  /** Returns the report of a task: its place, the figures of `Sums`, and whether it is done. */
  def figures(place: Array[Long], metrics: AsyncMetrics, inFlight: Int, isDone: Boolean): Array[Long] = {
    import metrics.{calls, errors, retries, rows}
    place ++ Array(rows, calls, retries, errors, inFlight.toLong, if (isDone) 1L else 0L)
  }

  private val KeepNanos = TimeUnit.MINUTES.toNanos(10)
  private final val PlaceSize = 4
  private val Sums = Seq("rows", "calls", "retries", "errors", "in_flight")

  /** The last reports by partition. Their sums are made once after each change: most stages have ended. */
  private final class Parts {
    @volatile var ended = false
    private val last = mutable.HashMap.empty[Long, Array[Long]]
    private var known = Option.empty[Map[String, Any]]

    def add(part: Long, figures: Array[Long]): Unit = synchronized {
      if (!last.get(part).exists(_.last > figures.last)) {
        last(part) = figures
        known = None
      }
    }

    def sums: Map[String, Any] = synchronized {
      if (known.isEmpty) known = Some(sum(last.values.toSeq))
      known.get
    }

    private def sum(parts: Seq[Array[Long]]): Map[String, Any] = {
      val done = parts.filter(_.last == 1L)
      val sums = Sums.zipWithIndex.map { case (name, i) => name -> parts.map(_(i + PlaceSize)).sum }
      Map[String, Any](
        "tasks" -> parts.headOption.fold(0L)(_(PlaceSize - 1)),
        "done" -> done.size,
        "done_rows" -> done.map(_(PlaceSize)).sum
      ) ++ sums
    }
  }

  /** The last reports by stage, node and its operator. */
  private final class Stages
      extends ConcurrentSkipListMap[(Long, Long, String), Parts](Ordering[(Long, Long, String)]) {
    @volatile var askedNanos = 0L
  }
}
