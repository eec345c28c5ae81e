package io.pillarbox.spark.task

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.sql.pillarbox.DriverMessages

/**
 * The failed calls of a task, or of a slot: the driver is told at once of the first of each kind, and at the
 * end how many rows failed. Thread-safe.
 *
 * @param run the action or streaming query that they belong to
 * @param scope what the process tells of its first failures once
 * @param operator the operator as messages name it
 */
private[pillarbox] final class FailedCalls private (run: String, scope: String, operator: String) {
  import FailedCalls._

  private val told = mutable.HashSet.empty[String]
  private val rows = mutable.LinkedHashMap.empty[String, Long]

  /** Takes note of an attempt that failed. `text` describes it if it is the first of its kind. */
  def attempt(kind: String)(text: => String): Unit = synchronized {
    if (told.size < MostKinds && told.add(kind) && isNew((scope, operator, kind)))
      DriverMessages.firstFailure(run, operator, kind, text)
  }

  /** Takes note of a row that failed for good. */
  def row(kind: String): Unit = synchronized {
    val name = if (rows.size < MostKinds || rows.contains(kind)) kind else "others"
    rows(name) = rows.getOrElse(name, 0L) + 1
  }

  /** Tells the driver what was counted since the last time. */
  def publish(): Unit = synchronized {
    if (rows.nonEmpty) DriverMessages.failedRows(run, operator, rows.keys.toArray, rows.values.toArray)
    rows.clear()
  }
}

private[pillarbox] object FailedCalls {
  private final val MostKinds = 100
  private final val MostTold = 10000

  /** What this process has told of, so that not every task of a stream tells of it again. */
  private val known = new java.util.LinkedHashMap[AnyRef, AnyRef](16, 0.75f, true) {
    override def removeEldestEntry(eldest: java.util.Map.Entry[AnyRef, AnyRef]): Boolean = size > MostTold
  }

  private def isNew(failure: AnyRef): Boolean = known.synchronized(known.put(failure, failure) == null)

  def of(task: TaskContext, operator: String): FailedCalls =
    new FailedCalls(DriverMessages.runOf(task), DriverMessages.startOf(task), operator)
}
