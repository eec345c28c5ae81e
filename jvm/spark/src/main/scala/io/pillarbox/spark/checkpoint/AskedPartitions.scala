package io.pillarbox.spark.checkpoint

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

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
