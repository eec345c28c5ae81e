package org.apache.spark.sql.pillarbox

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.execution.streaming.AvailableNowTrigger
import org.apache.spark.sql.pillarbox.Spark41.StreamExecution

/**
 * The running queries, for stateful nodes: a node's session is a copy that does not know its query. On the
 * driver. Written for Spark 4.2.
 */
object RunningQueries {
  private val byRun = new ConcurrentHashMap[UUID, StreamExecution]

  private[pillarbox] def add(query: StreamExecution): Unit = byRun.put(query.runId, query): Unit

  private[pillarbox] def remove(run: UUID): Unit = byRun.remove(run): Unit

  /** True if the query ends by itself once all is done (`Trigger.AvailableNow`). */
  def endsByItself(run: UUID): Boolean = find(run).exists(_.trigger == AvailableNowTrigger)

  /**
   * True if a caller waits until all has been processed (`processAllAvailable`). On the thread of the query,
   * while it decides on its next micro-batch: then it holds the lock. A caller that was woken by the last
   * micro-batch and has not yet looked again is queued for the lock.
   */
  def isAwaited(run: UUID): Boolean = find(run).exists { query =>
    val lock = StreamInternals.lock(query)
    lock.isHeldByCurrentThread &&
    (lock.hasQueuedThreads || lock.hasWaiters(StreamInternals.condition(query)))
  }

  /**
   * Changes the ids by which the query knows the state of an operator's partitions, of the last micro-batch,
   * under checkpoint format 2. On the thread of the query, while a micro-batch is about to run.
   */
  def replaceIds(run: UUID, operator: Long, ids: Seq[String]): Unit =
    find(run).foreach(_.lastExecution.currentStateStoreCkptId.put(operator, ids.map(Array(_)).toArray))

  private def find(run: UUID): Option[StreamExecution] = Option(byRun.get(run))
}
