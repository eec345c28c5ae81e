package io.pillarbox.spark.task

import java.util.{LinkedHashMap, Map => JMap}

import scala.collection.mutable

import org.apache.spark.sql.pillarbox.DriverMessages

/**
 * The driver's book of failed calls, for each run: of an action, or of a streaming query. It says the first
 * failure of each kind when it comes, and at the end of the run how many rows failed. Thread-safe.
 *
 * @param say writes lines where people look; called without a lock
 */
private[pillarbox] final class FirstFailures(say: String => Unit) extends DriverMessages.Failures {
  import FirstFailures._

  private val runs = new LinkedHashMap[String, Run](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[String, Run]): Boolean = size > MostRuns
  }

  override def first(run: String, operator: String, kind: String, text: String): Unit =
    if (synchronized(of(run).told.add(operator -> kind))) say(text)

  override def failed(run: String, operator: String, rows: Seq[(String, Long)]): Unit = synchronized {
    val counts = of(run).rows.getOrElseUpdate(operator, mutable.LinkedHashMap.empty)
    rows.foreach { case (kind, more) => counts(kind) = counts.getOrElse(kind, 0L) + more }
  }

  override def ended(run: String): Unit = {
    val counted = synchronized(Option(runs.remove(run)))
    counted.foreach(_.rows.foreach { case (operator, counts) => say(summary(operator, counts.toSeq)) })
  }

  private def of(run: String): Run = runs.computeIfAbsent(run, _ => new Run)
}

private[pillarbox] object FirstFailures {

  /** More than run at a time; those of RDDs, whose end nobody tells, share one. */
  private final val MostRuns = 1000
  private final val LongestMessage = 1000
  private final val LongestTrace = 4000

  private final class Run {
    val told = mutable.HashSet.empty[(String, String)]
    val rows = mutable.LinkedHashMap.empty[String, mutable.LinkedHashMap[String, Long]]
  }

  /**
   * The lines for the first failure of a kind. `python/src/pillarbox/_async/failed_calls.py` makes the same,
   * and `tests/golden/first_failures.json` has cases for both.
   *
   * @param attempts the most that there may be
   * @param trace the traceback, or empty
   */
  def text(
      operator: String,
      kind: String,
      attempt: Int,
      attempts: Int,
      row: String,
      message: String,
      trace: String
  ): String = {
    val told = message.stripPrefix(s"[$kind] ")
    val place = if (attempt > 0) s"in attempt $attempt of $attempts" else "before an attempt"
    val head = s"$operator: the first $kind came $place, for the row ($row): "
    val lines = trace.replaceAll("\n+\\z", "")
    head + cut(told, LongestMessage) + (if (lines.isEmpty) "" else "\n" + last(lines, LongestTrace))
  }

  /**
   * The line for calls without an answer for long. `python/src/pillarbox/_async/failed_calls.py` makes the
   * same, and `tests/golden/long_calls.json` has cases for both.
   *
   * @param row the oldest call's
   * @param more the number of others
   */
  def longCalls(
      operator: String,
      id: String,
      attempt: Int,
      row: String,
      seconds: Long,
      more: Int
  ): String = {
    val others = if (more == 0) "" else s"; $more more have none for a minute"
    s"$operator: the call $id, attempt $attempt for the row ($row), has no answer for $seconds s$others"
  }

  private def summary(operator: String, counts: Seq[(String, Long)]): String = {
    val all = counts.map(_._2).sum
    val kinds = counts.sortBy(-_._2).map { case (kind, rows) => s"$rows $kind" }
    s"$operator: $all ${if (all == 1) "row" else "rows"} failed: ${kinds.mkString(", ")}"
  }

  private def cut(text: String, longest: Int): String =
    if (text.codePointCount(0, text.length) <= longest) text
    else text.substring(0, text.offsetByCodePoints(0, longest)) + "…"

  /** The end of a traceback has the place of the failure. */
  private def last(text: String, longest: Int): String = {
    val length = text.codePointCount(0, text.length)
    if (length <= longest) text else "…" + text.substring(text.offsetByCodePoints(0, length - longest))
  }
}
