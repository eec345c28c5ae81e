package io.pillarbox.spark.keyed

import io.pillarbox.spark.base.{FailureReport, JvmExceptions}
import io.pillarbox.spark.task.ReportedException
import io.pillarbox.state.StateException

/** The errors of keyed operators: what was wrong, what was found, what to do. */
private[pillarbox] object KeyedErrors {

  /**
   * The error of a user's function, or of what it asked for, that failed for a key.
   *
   * @param row the row that was being processed, unless it was a timer
   */
  def callFailed(
      name: String,
      key: String,
      row: Option[String],
      timer: Option[String],
      problem: Throwable
  ): RuntimeException = {
    val event = row.fold(s"on_timer(${timer.getOrElse("")})")(shown => s"process($shown)")
    val report = problem match {
      case ours: ReportedException => found(ours.report, key, event)
      case ours: StateException => found(stateReport(name, ours), key, event)
      case other => thrown(name, key, event, other)
    }
    new ReportedException(report.copy(key = Some(key), row = row, timer = timer))
  }

  private def found(report: FailureReport, key: String, event: String): FailureReport =
    report.copy(text = s"${report.text} It came for the key $key in $event.")

  private def thrown(name: String, key: String, event: String, problem: Throwable): FailureReport = {
    val (kind, message) = (JvmExceptions.kindOf(problem), JvmExceptions.messageOf(problem))
    val report = FailureReport.of(
      "KEYED_CALL_FAILED",
      FailureReport.keyed(name),
      "key" -> key,
      "event" -> event,
      "kind" -> kind,
      "reason" -> message.stripSuffix("."),
      "hint" -> ""
    )
    report.copy(kind = kind, message = message, traceback = JvmExceptions.traceOf(problem))
  }

  def keyCollation(operator: String, column: String, dataType: String): IllegalArgumentException =
    refused("KEY_COLLATION", operator, "column" -> column, "data_type" -> dataType)

  /** The error of states that don't fit the checkpoint, or each other. */
  def stateMisfit(name: String, error: StateException): RuntimeException =
    new ReportedException(stateReport(name, error), error)

  private def stateReport(name: String, error: StateException): FailureReport = {
    val text = error.getMessage.stripPrefix(s"[${error.condition}] ")
    FailureReport("StateError", error.condition, text, FailureReport.keyed(name), error.condition, text)
  }

  /** Makes an error of a task, which user code or data caused. */
  def named(error: String, name: String, parameters: (String, Any)*): RuntimeException =
    new ReportedException(FailureReport.of(error, FailureReport.keyed(name), parameters: _*))

  /** Makes an error of the driver, before anything runs. */
  def refused(error: String, name: String, parameters: (String, Any)*): IllegalArgumentException =
    new IllegalArgumentException(FailureReport.of(error, FailureReport.keyed(name), parameters: _*).errorText)

  /** Shows names in a message. */
  def quoted(names: Seq[String]): String =
    if (names.isEmpty) "none" else names.mkString("'", "', '", "'")
}
