package org.apache.spark.sql.pillarbox

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** What a query has left in its folder of state, as operators of ours read it. On the driver. */
trait QueryState {

  /** Whether an operator of ours wrote a folder. */
  def isOurs(operator: Path, conf: Configuration): Boolean

  /**
   * The earliest timers over all partitions of all operators of ours.
   *
   * @param state
   *   the query's folder of state
   * @param version
   *   of the last micro-batch that was committed
   * @param ids
   *   of its commits, by operator and partition; none under checkpoint format 1
   */
  def due(
      state: Path,
      version: Long,
      ids: (Long, Int) => Option[String],
      conf: Configuration
  ): QueryState.Due
}

object QueryState {

  /**
   * Whether a timer is due at a watermark, as Spark tells it, and a processing time, in milliseconds since
   * 1970.
   */
  type Due = (Long, Long) => Boolean
}
