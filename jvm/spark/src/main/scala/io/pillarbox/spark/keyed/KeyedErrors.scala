package io.pillarbox.spark.keyed

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
    UserErrors.failure(
      "INITIAL_STATE_UNKNOWN",
      s"$operator: initial_state has the state '$state', which the function does not declare; declared are " +
        s"${declared.mkString("'", "', '", "'")}. Drop or rename the column",
      null
    )

  def initialStateType(operator: String, state: String, found: String, wanted: String): RuntimeException =
    UserErrors.failure(
      "INITIAL_STATE_TYPE",
      s"$operator: initial_state has the state '$state' as $found, which can't become $wanted without loss, as the " +
        "function declares it. Cast the column",
      null
    )

  def initialStateNull(operator: String, state: String): RuntimeException = UserErrors.failure(
    "INITIAL_STATE_NULL",
    s"$operator: initial_state has a null in a list, a map or an entry of the state '$state', and null is not a value. " +
      "Filter it out",
    null
  )

  def initialStateUnsupported(operator: String, state: String, serializer: String): RuntimeException =
    UserErrors.failure(
      "INITIAL_STATE_UNSUPPORTED",
      s"$operator: the state '$state' has the serializer $serializer, for which there is no initial state. Use rows or a " +
        "basic type",
      null
    )

  def unknownSideOutput(operator: String, tag: String, declared: Seq[String]): RuntimeException =
    UserErrors.failure(
      "UNKNOWN_SIDE_OUTPUT",
      s"$operator: there is no side output '$tag'; declared are ${declared.mkString("'", "', '", "'")}. Declare it: " +
        "process_keyed(..., side_outputs={\"late\": \"k string, n bigint\"})",
      null
    )

  def sideOutputNoRow(operator: String, tag: String, value: Any): RuntimeException = UserErrors.failure(
    "UNKNOWN_SIDE_OUTPUT",
    s"$operator: the side output '$tag' takes rows, and was given $value. Emit an org.apache.spark.sql.Row",
    null
  )

  /** States that don't fit what a checkpoint has, or each other. */
  def stateMisfit(operator: String, error: StateException): RuntimeException = UserErrors.failure(
    error.condition,
    s"$operator: ${error.getMessage.stripPrefix(s"[${error.condition}] ")}",
    error
  )

  def statesGone(operator: String, gone: Seq[String], declared: Seq[String]): RuntimeException =
    UserErrors.failure(
      "STATE_GONE",
      s"$operator: the checkpoint has the state ${gone.mkString("'", "', '", "'")}, which the function no longer declares; " +
        s"declared are ${declared.mkString("'", "', '", "'")}. Declare it under its old name, or start the query with a " +
        "new checkpointLocation, and initial_state for what is to be kept",
      null
    )

  def checkpointOf(path: String, what: String, found: String, wanted: String): IllegalStateException =
    new IllegalStateException(
      s"[KEYED_CHECKPOINT_MISMATCH] The checkpoint in $path was written with $what $found, the query now has $wanted. " +
        "Restart the query as it was, or with a new checkpointLocation"
    )
}
