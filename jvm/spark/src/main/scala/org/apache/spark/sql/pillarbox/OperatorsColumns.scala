package org.apache.spark.sql.pillarbox

import scala.xml.{Node, Text}

import org.apache.spark.ui.UIUtils
import org.apache.spark.util.Utils

/** A column of both tables of the tab. One that no line has is not shown. */
private sealed trait Column {
  def title: String

  /** What a line shows, or nothing. */
  def of(operator: OperatorFigures, live: LiveFigures): Seq[Node]

  /** True if there is something to show, though it may be nothing at the moment. */
  def has(operator: OperatorFigures, live: LiveFigures): Boolean = of(operator, live).nonEmpty

  /** False if only operators have it. */
  def isOfPartitions: Boolean = true
}

/** A column of what the event log has. */
private sealed trait TextColumn extends Column {
  def of(operator: OperatorFigures): String

  override def of(operator: OperatorFigures, live: LiveFigures): Seq[Node] = {
    val text = of(operator)
    if (text.isEmpty) Nil else Text(text)
  }
}

/** What calls have used, of each unit that they report: the metrics whose name is the unit and "used". */
private object Used extends TextColumn {
  override val title = "Used"

  override def of(operator: OperatorFigures): String =
    operator.metrics
      .filter(_.endsWith(Suffix))
      .sorted
      .map(metric => f"${operator.valuesOf(metric).sum}%,d ${metric.stripSuffix(Suffix)}")
      .mkString(", ")

  private val Suffix = " used"
}

/** A column of the first of these metrics that the operator has. */
private final case class Figure(title: String, metrics: String*) extends TextColumn {

  override def has(operator: OperatorFigures, live: LiveFigures): Boolean =
    metrics.exists(operator.metrics.contains(_))

  /** The figure over the partitions: their sum, or their mean or most where the metric is an average. */
  override def of(operator: OperatorFigures): String =
    metrics.find(operator.metrics.contains(_)).fold("") { metric =>
      val values = operator.valuesOf(metric)
      operator.typeOf(metric) match {
        case "average" if values.isEmpty => ""
        case "average" if Figure.Most(metric) => f"${values.foldLeft(0L)(math.max) / 10}%,d"
        case "average" => f"${values.sum / 10.0 / values.length}%.1f"
        case "timing" if OperatorsListener.Timers(metric) =>
          values.minOption.fold("")(UIUtils.formatDuration(_))
        case "timing" => UIUtils.formatDuration(values.sum)
        case "nsTiming" => UIUtils.formatDuration(values.sum / 1000000L)
        case "size" => Utils.bytesToString(values.sum)
        case _ => f"${values.sum}%,d"
      }
    }
}

private object Figure {

  /** Of these averages the largest is shown. */
  private val Most = Set("calls in flight, most in a task", "oldest call in flight (ms)")
}

/** The key with most rows of late, and its share of them. */
private object Hottest extends Column {
  override val title = "Hottest key"

  override def of(operator: OperatorFigures, live: LiveFigures): Seq[Node] =
    live.hottestKey(operator.id, operator.partitions.map(_.partition).toSet).toSeq.flatMap {
      case (key, share) => Text(f"$key, about ${share * 100}%.0f %%")
    }
}

/** How long calls took in the last minutes. */
private object LatencyOfLate extends Column {
  override val title = "Latency, last 5 min"

  override def of(operator: OperatorFigures, live: LiveFigures): Seq[Node] =
    live.latencies(operator.id).toSeq.flatMap(LatencyPicture.small)

  override def isOfPartitions: Boolean = false
}

private object Column {
  private val Rows = Figure("Rows out", "number of output rows")

  val OfCalls: Seq[Column] = Seq(
    Rows,
    Figure("Calls", "calls"),
    Figure("Retries", "retries"),
    Figure("Timeouts", "timeouts"),
    Figure("Errors", "errors"),
    Figure("Rate-limited", "rate-limited", "number of calls that the service refused"),
    Figure("Shared", "shared", "number of rows that shared the call of another"),
    Figure("From the journal", "answers from the journal", "number of answers from the journal"),
    Used,
    Figure("In flight", "calls in flight", "number of calls in flight at the end of the micro-batch"),
    Figure("Waiting", "calls waiting"),
    Figure("Most in flight in a task", "calls in flight, most in a task"),
    Figure("Oldest call (ms)", "oldest call in flight (ms)"),
    LatencyOfLate,
    Figure("Latency mean (ms)", "call latency mean (ms)"),
    Figure("Latency p99 (ms)", "call latency p99 (ms)"),
    Figure("Waited for capacity", "time waiting for capacity"),
    Figure("Waited for limits", "time waiting for limits")
  )

  val OfKeyed: Seq[Column] = Seq(
    Rows,
    Hottest,
    Figure("Entries in the state", "number of total state rows"),
    Figure("Written", "number of updated state rows"),
    Figure("Late rows dropped", "number of rows which are dropped by watermark"),
    Figure("Event timers fired", "number of event-time timers fired"),
    Figure("Processing timers fired", "number of processing-time timers fired"),
    Figure("Timers waiting", "number of timers waiting"),
    Figure("Next event timer after", "time to the next event-time timer"),
    Figure("Next processing timer after", "time to the next processing-time timer"),
    Figure("Time in Python", "time to run Python workers"),
    Figure("Time to commit", "time to commit changes"),
    Figure("Bytes committed", "bytes written by commits"),
    Figure("Bytes on disk", "bytes of state in local files"),
    Figure("Calls", "calls"),
    Figure("Retries", "retries"),
    Figure("Timeouts", "timeouts"),
    Figure("Errors", "errors"),
    Figure("Rate-limited", "rate-limited"),
    Used,
    LatencyOfLate
  )
}
