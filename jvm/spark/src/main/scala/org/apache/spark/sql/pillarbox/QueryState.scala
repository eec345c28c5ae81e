package org.apache.spark.sql.pillarbox

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** Reads what the library's operators have left in a query's folder of state. On the driver. */
trait QueryState {

  /** True if an operator of this library wrote a folder. */
  def isOurs(operator: Path, conf: Configuration): Boolean

  /**
   * Finds the earliest timers over all partitions of all operators of this library.
   *
   * @param state the query's folder of state
   * @param version the version of the last micro-batch that was committed
   * @param ids the ids of its commits, by operator and partition; none under checkpoint format 1
   */
  def due(state: Path, version: Long, ids: (Long, Int) => Option[String], conf: Configuration): QueryState.Due
}

object QueryState {

  /** True if a timer is due at a watermark, as Spark counts it, and a processing time, in ms since 1970. */
  type Due = (Long, Long) => Boolean
}
