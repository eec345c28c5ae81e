package org.apache.spark.sql.pillarbox

import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.spark.SparkEnv
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCoordinatorRef,
  StateStoreId,
  StateStoreProviderId
}

/**
 * A partition of a stateful operator in a run of a query, for Spark's coordinator. Written for Spark 4.2.
 *
 * @param checkpoint the query's folder of state
 */
final case class StatePartition(checkpoint: String, operator: Long, partition: Int, runId: UUID) {

  def folder: Path = new Path(checkpoint, s"$operator/$partition")

  /** True for the same partition of another run of its query. */
  def isOfOtherRun(other: StatePartition): Boolean =
    runId != other.runId && copy(runId = other.runId) == other

  /**
   * Reports that this executor has the partition open now.
   *
   * @return the partitions of `others` that are open elsewhere
   */
  def reportActive(others: Seq[StatePartition]): Seq[StatePartition] = {
    val env = SparkEnv.get
    val known = others.filter(_ != this).map(other => other.providerId -> other).toMap
    val id = env.blockManager.blockManagerId
    val coordinator = StatePartition.coordinator(env)
    val response = coordinator.reportActiveInstance(providerId, id.host, id.executorId, known.keys.toSeq)
    Spark42.toUnload(response).flatMap(known.get(_))
  }

  /** True if this executor is the one that has it open, and its query still runs. */
  def isActive: Boolean = {
    val env = SparkEnv.get
    try env != null && StatePartition.coordinator(env).verifyIfInstanceActive(providerId, env.executorId)
    catch { case NonFatal(_) => false }
  }

  def reportCommit(version: Long): Unit =
    Spark41.reportCommit(StatePartition.coordinator(SparkEnv.get), providerId, version)

  def reportSnapshot(version: Long): Unit =
    Spark41.reportSnapshot(StatePartition.coordinator(SparkEnv.get), providerId, version)

  private def providerId = StateStoreProviderId(StateStoreId(checkpoint, operator, partition), runId)
}

object StatePartition {

  /** Returns a function that finds the executor that has a partition open. On the driver. */
  def locator(session: SparkSession): StatePartition => Seq[String] = {
    val coordinator = SparkAdapter.classicOf(session).streams.stateStoreCoordinator
    partition => coordinator.getLocation(partition.providerId).toSeq
  }

  private var known: (SparkEnv, StateStoreCoordinatorRef) = _

  /** A new SparkContext in the same process has another coordinator. */
  private def coordinator(env: SparkEnv): StateStoreCoordinatorRef = synchronized {
    if (known == null || (known._1 ne env)) known = (env, StateStoreCoordinatorRef.forExecutor(env))
    known._2
  }
}
