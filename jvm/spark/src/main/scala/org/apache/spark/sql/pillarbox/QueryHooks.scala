package org.apache.spark.sql.pillarbox

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.Trigger

/** What a streaming query is about to run with. */
final case class StartingQuery(
    plan: LogicalPlan,
    trigger: Trigger,
    conf: SQLConf,
    hadoopConf: Configuration,
    state: Path,
    nextBatch: Long
)

/** What we do when a streaming query starts and ends. On the driver. */
trait QueryHooks {

  /** Whether a query has to do with us. */
  def concerns(plan: LogicalPlan): Boolean

  /** Whether what a query has left can ask for a micro-batch without input. */
  def canWake(plan: LogicalPlan): Boolean

  /**
   * On the thread of a query that concerns us, before its first micro-batch; what it throws fails the query.
   */
  def check(query: StartingQuery): Unit

  /** After a run of any query. */
  def ended(run: UUID): Unit

  /** Reads what a query has left. */
  def state: QueryState
}
