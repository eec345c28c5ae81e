package org.apache.spark.sql.pillarbox

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.Trigger

/**
 * The properties of a streaming query that is about to run.
 *
 * @param ids the ids of the commits of the last micro-batch, by operator and partition; none under checkpoint format 1
 */
final case class StartingQuery(
    plan: LogicalPlan,
    trigger: Trigger,
    conf: SQLConf,
    hadoopConf: Configuration,
    state: Path,
    nextBatch: Long,
    ids: (Long, Int) => Option[String]
)

/** The library's part in the start and end of streaming queries. On the driver. */
trait QueryHooks {

  /** True if a query has nodes of this library. */
  def concerns(plan: LogicalPlan): Boolean

  /** True if the checkpoint of a query can ask for a micro-batch without input. */
  def canWake(plan: LogicalPlan): Boolean

  /** Called as a run of a query with the library's nodes begins, with the settings of its session. */
  def starts(run: UUID, plan: LogicalPlan, conf: SQLConf): Unit

  /** Checks a query with the library's nodes, on its thread, before it runs. An exception fails the query. */
  def check(query: StartingQuery): Unit

  /** Called after a run of any query. */
  def ended(run: UUID): Unit

  /** True if an operator of this library wrote a folder of state. */
  def isOurs(operator: Path, conf: Configuration): Boolean

  /**
   * Finds the earliest timers over all partitions of all operators of this library.
   *
   * @param state the query's folder of state
   * @param version the version of the last micro-batch that was committed
   * @param ids the ids of its commits, by operator and partition; none under checkpoint format 1
   */
  def due(state: Path, version: Long, ids: (Long, Int) => Option[String], conf: Configuration): QueryHooks.Due
}

object QueryHooks {

  /** True if a timer is due at a watermark, as Spark counts it, and a processing time, in ms since 1970. */
  type Due = (Long, Long) => Boolean
}
