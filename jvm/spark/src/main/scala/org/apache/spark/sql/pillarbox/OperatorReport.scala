package org.apache.spark.sql.pillarbox

import org.apache.spark.scheduler.SparkListenerEvent

/**
 * What a task tells of its operator for the tab in Spark's UI, as an event of Spark's, so that it comes behind
 * those of the plan. No event log has it.
 */
private[spark] sealed trait OperatorReport extends SparkListenerEvent {

  /** The id of one of the metrics of the operator's node. */
  def metric: Long

  override protected[spark] def logEvent: Boolean = false
}

/**
 * @param counts for some ranges of latencies the microseconds where they begin and end, and the number of
 *   answers that have come in them
 */
private[spark] final class CallLatencies(override val metric: Long, val counts: Array[Long])
    extends OperatorReport

/**
 * The key that most rows of a partition have had of late.
 *
 * @param key the key as text
 * @param rows the number of its rows, weighted by their age, estimated from a sample
 * @param of the same of all keys
 */
private[spark] final class HottestKey(
    override val metric: Long,
    val partition: Int,
    val key: String,
    val rows: Double,
    val of: Double
) extends OperatorReport
