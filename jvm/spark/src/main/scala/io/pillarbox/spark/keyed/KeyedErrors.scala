package io.pillarbox.spark.keyed

import io.pillarbox.spark.ErrorCatalogue
import io.pillarbox.state.StateException
import org.apache.spark.sql.pillarbox.UserErrors

/** The errors of keyed operators: what was wrong, what was found, what to do. */
object KeyedErrors {

  def withoutWatermark(operator: String): IllegalStateException = new IllegalStateException(
    s"[KEYED_TIMER_WITHOUT_WATERMARK] $operator: an event-time timer can never fire, for the stream has no watermark. " +
      "Call withWatermark on the DataFrame before process_keyed, or register a processing-time timer"
  )

  def sortedWithoutTime(operator: String): IllegalArgumentException = new IllegalArgumentException(
    s"[KEYED_TIME_SORTED_WITHOUT_TIME] $operator: time-sorted input needs an event time, and in a stream a watermark. " +
      "Name the column (timestamp=...) and call withWatermark on the DataFrame before process_keyed"
  )

  def rowWithoutTime(operator: String, row: String): IllegalArgumentException = new IllegalArgumentException(
    s"[KEYED_ROW_WITHOUT_TIME] $operator: a row can't be sorted by time, for its event time is null: $row. " +
      "Filter such rows out, or use time_sorted=False"
  )

  def keyType(operator: String, column: String, dataType: String, why: String): IllegalArgumentException =
    new IllegalArgumentException(
      s"[KEYED_KEY_TYPE] $operator: the column $column of type $dataType can't be a key: $why. " +
        "Choose another column, or derive one (for instance a string or a struct of scalars)"
    )

  def initialStateUnknown(operator: String, state: String, declared: Seq[String]): RuntimeException =
    named("INITIAL_STATE_UNKNOWN", operator, "state" -> state, "declared" -> quoted(declared))

  def initialStateType(operator: String, state: String, found: String, wanted: String): RuntimeException =
    named("INITIAL_STATE_TYPE", operator, "state" -> state, "found" -> found, "wanted" -> wanted)

  def initialStateNull(operator: String, state: String): RuntimeException =
    named("INITIAL_STATE_NULL", operator, "state" -> state)

  def initialStateUnsupported(operator: String, state: String, serializer: String): RuntimeException =
    named("INITIAL_STATE_UNSUPPORTED", operator, "state" -> state, "serializer" -> serializer)

  def unknownSideOutput(operator: String, tag: String, declared: Seq[String]): RuntimeException =
    named("UNKNOWN_SIDE_OUTPUT", operator, "tag" -> s"'$tag'", "declared" -> quoted(declared))

  def sideOutputNoRow(operator: String, tag: String, value: Any): RuntimeException =
    named("SIDE_OUTPUT_NOT_A_ROW", operator, "tag" -> tag, "value" -> value)

  def statesGone(operator: String, gone: Seq[String], declared: Seq[String]): RuntimeException =
    named("STATE_GONE", operator, "state" -> gone.mkString("', '"), "declared" -> quoted(declared))

  /** States that don't fit what a checkpoint has, or each other. */
  def stateMisfit(operator: String, error: StateException): RuntimeException = UserErrors.failure(
    error.condition,
    s"$operator: ${error.getMessage.stripPrefix(s"[${error.condition}] ")}",
    error
  )

  private def named(name: String, operator: String, parameters: (String, Any)*): RuntimeException =
    UserErrors.failure(name, s"$operator: ${ErrorCatalogue.text(name, parameters: _*)}", null)

  private def quoted(names: Seq[String]): String =
    if (names.isEmpty) "none" else names.mkString("'", "', '", "'")

  def checkpointOf(path: String, what: String, found: String, wanted: String): IllegalStateException =
    new IllegalStateException(
      s"[KEYED_CHECKPOINT_MISMATCH] The checkpoint in $path was written with $what $found, the query now has $wanted. " +
        "Restart the query as it was, or with a new checkpointLocation"
    )
}
