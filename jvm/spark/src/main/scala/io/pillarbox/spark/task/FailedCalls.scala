package io.pillarbox.spark.task

import scala.collection.mutable

import org.apache.spark.sql.pillarbox.DriverMessages

/**
 * The failed calls of a task, or of a slot: the driver is told at once of the first of each kind, and at the
 * end how many rows failed. Thread-safe.
 *
 * @param run the action or streaming query that they belong to
 * @param operator the operator as messages name it
 */
private[pillarbox] final class FailedCalls(run: String, operator: String) {
  private val told = mutable.HashSet.empty[String]
  private val rows = mutable.LinkedHashMap.empty[String, Long]

  /** Takes note of an attempt that failed. `text` describes it if it is the first of its kind. */
  def attempt(kind: String)(text: => String): Unit = synchronized {
    if (told.size < FailedCalls.MostKinds && told.add(kind))
      DriverMessages.firstFailure(run, operator, kind, text)
  }

  /** Takes note of rows that failed for good. */
  def row(kind: String, more: Long = 1): Unit = synchronized {
    val name = if (rows.size < FailedCalls.MostKinds || rows.contains(kind)) kind else "others"
    rows(name) = rows.getOrElse(name, 0L) + more
  }

  /** Tells the driver what was counted since the last time. */
  def publish(): Unit = synchronized {
    if (rows.nonEmpty) DriverMessages.failedRows(run, operator, rows.keys.toArray, rows.values.toArray)
    rows.clear()
  }
}

private object FailedCalls {
  private final val MostKinds = 100
}
