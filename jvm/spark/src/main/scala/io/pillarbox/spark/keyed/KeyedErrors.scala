package io.pillarbox.spark.keyed

import io.pillarbox.spark.base.{FailureReport, JvmExceptions}
import io.pillarbox.spark.task.ReportedException
import io.pillarbox.state.StateException

/** The errors of keyed operators: what was wrong, what was found, what to do. */
private[pillarbox] object KeyedErrors {

  def withoutWatermark(operator: String): RuntimeException =
    named("TIMER_WITHOUT_WATERMARK", operator, "operator" -> operator)

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

  def rowWithoutTime(operator: String, column: String, row: String): RuntimeException =
    named("TIMESTAMP_MISSING", operator, "column" -> column, "row" -> row)

  def aggregationBefore(operator: String, mode: String): IllegalArgumentException =
    refused("AGGREGATION_BEFORE_KEYED", operator, "mode" -> mode)

  def inRealTime(operator: String): IllegalArgumentException = refused("REAL_TIME_KEYED", operator)

  def behindWatermark(operator: String, row: String, column: String, watermark: Long): RuntimeException =
    named(
      "EVENT_TIME_BEHIND_WATERMARK",
      operator,
      "row" -> row,
      "column" -> column,
      "watermark" -> java.time.Instant.ofEpochMilli(watermark)
    )

  def keyCollation(operator: String, column: String, dataType: String): IllegalArgumentException =
    refused("KEY_COLLATION", operator, "column" -> column, "data_type" -> dataType)

  def initialStateUnknown(operator: String, state: String, declared: Seq[String]): RuntimeException =
    named("INITIAL_STATE_UNKNOWN", operator, "state" -> state, "declared" -> quoted(declared))

  def initialStateType(operator: String, state: String, found: String, wanted: String): RuntimeException =
    named("INITIAL_STATE_TYPE", operator, "state" -> state, "found" -> found, "wanted" -> wanted)

  def initialRow(operator: String, key: String, reason: String): RuntimeException =
    named("INITIAL_ROW_INVALID", operator, "key" -> key, "reason" -> reason)

  def initialKeyType(
      operator: String,
      column: String,
      found: String,
      wanted: String
  ): IllegalArgumentException =
    refused("INITIAL_STATE_KEY_TYPE", operator, "column" -> column, "found" -> found, "wanted" -> wanted)

  def initialStateTwice(operator: String, what: String, key: String): RuntimeException =
    named("INITIAL_STATE_TWICE", operator, "what" -> what, "key" -> key)

  def initialTimer(operator: String, key: String, reason: String): RuntimeException =
    named("INITIAL_TIMER_INVALID", operator, "key" -> key, "reason" -> reason)

  def initialStateNull(operator: String, state: String): RuntimeException =
    named("INITIAL_STATE_NULL", operator, "state" -> state)

  def initialStateUnsupported(operator: String, state: String, serializer: String): RuntimeException =
    named("INITIAL_STATE_UNSUPPORTED", operator, "state" -> state, "serializer" -> serializer)

  def outputNameClash(
      operator: String,
      column: String,
      first: String,
      second: String
  ): IllegalArgumentException =
    refused("OUTPUT_NAME_CLASH", operator, "column" -> column, "first" -> first, "second" -> second)

  def unknownSideOutput(operator: String, tag: String, declared: Seq[String]): RuntimeException =
    named("UNKNOWN_SIDE_OUTPUT", operator, "tag" -> s"'$tag'", "declared" -> quoted(declared))

  def sideOutputNoRow(operator: String, tag: String, value: Any): RuntimeException =
    named("SIDE_OUTPUT_NOT_A_ROW", operator, "tag" -> tag, "value" -> String.valueOf(value))

  def resultMisfit(operator: String, reason: String): RuntimeException =
    named("JVM_RESULT_MISMATCH", operator, "reason" -> reason)

  def statesGone(operator: String, gone: Seq[String], declared: Seq[String]): RuntimeException =
    named("STATE_GONE", operator, "state" -> gone.mkString("', '"), "declared" -> quoted(declared))

  /** The error of states that don't fit the checkpoint, or each other. */
  def stateMisfit(name: String, error: StateException): RuntimeException =
    new ReportedException(stateReport(name, error), error)

  private def stateReport(name: String, error: StateException): FailureReport = {
    val text = error.getMessage.stripPrefix(s"[${error.condition}] ")
    FailureReport("StateError", error.condition, text, FailureReport.keyed(name), error.condition, text)
  }

  /** @param the part that no row's values determine */
  def scanExpression(
      operator: String,
      place: String,
      expression: String,
      what: String
  ): IllegalArgumentException =
    refused("SCAN_EXPRESSION", operator, "place" -> place, "expression" -> expression, "what" -> what)

  /** @param cast the text for the place of the state's initial value, or of its update */
  def scanStateType(
      operator: String,
      state: String,
      update: String,
      known: String,
      found: String,
      cast: String
  ): IllegalArgumentException = refused(
    "SCAN_STATE_TYPE",
    operator,
    "state" -> state,
    "update" -> update,
    "known" -> known,
    "found" -> found,
    "cast" -> cast
  )

  /** Makes an error of a task, which user code or data caused. */
  private def named(error: String, name: String, parameters: (String, Any)*): RuntimeException =
    new ReportedException(FailureReport.of(error, FailureReport.keyed(name), parameters: _*))

  /** Makes an error of the driver, before anything runs. */
  private def refused(error: String, name: String, parameters: (String, Any)*): IllegalArgumentException =
    new IllegalArgumentException(FailureReport.of(error, FailureReport.keyed(name), parameters: _*).layout)

  private def quoted(names: Seq[String]): String =
    if (names.isEmpty) "none" else names.mkString("'", "', '", "'")
}
