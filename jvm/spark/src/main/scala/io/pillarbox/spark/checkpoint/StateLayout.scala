package io.pillarbox.spark.checkpoint

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

/**
 * The partitions of a keyed operator's state.
 *
 * @param earlier the partitions that there were before, if their number has changed
 */
private[pillarbox] final case class StateLayout(
    partitions: Int,
    earlier: Option[StateLayout.Earlier] = None
) {

  /** The version that the partitions began with; files up to it are those of other partitions. */
  def since: Long = earlier.fold(0L)(_.version)

  /** True if state of `version` has to be read from the partitions that there were before. */
  def beginsWith(version: Long): Boolean = earlier.exists(_.version == version)
}

private[pillarbox] object StateLayout {

  /**
   * The state that partitions begin with.
   *
   * @param ids the ids in the names of its files, by its own partitions; None for one that is empty
   */
  final case class Earlier(version: Long, layout: StateLayout, ids: IndexedSeq[Option[String]])
}

/**
 * What the session of a query said of partitions when a run began, before Spark put the number of the
 * checkpoint in its place. On the driver; thread-safe.
 *
 * @param number `spark.sql.shuffle.partitions`, if it was set
 * @param besideSpark true if the query has stateful operators of Spark, whose partitions can't change
 */
private[pillarbox] final case class AskedPartitions(number: Option[Int], besideSpark: Boolean)

private[pillarbox] object AskedPartitions {
  private val byRun = new ConcurrentHashMap[UUID, AskedPartitions]

  def begin(run: UUID, asked: AskedPartitions): Unit = byRun.put(run, asked): Unit

  /** Returns that nothing was asked for where the library did not see the query begin. */
  def of(run: UUID): AskedPartitions = byRun.getOrDefault(run, AskedPartitions(None, besideSpark = false))

  def close(run: UUID): Unit = byRun.remove(run): Unit
}
