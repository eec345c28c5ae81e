package io.pillarbox.spark.keyed

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

  def checkpointOf(path: String, what: String, found: String, wanted: String): IllegalStateException =
    new IllegalStateException(
      s"[KEYED_CHECKPOINT_MISMATCH] The checkpoint in $path was written with $what $found, the query now has $wanted. " +
        "Restart the query as it was, or with a new checkpointLocation"
    )
}
