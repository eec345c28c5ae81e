package io.pillarbox.spark.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.pillarbox.StatePartition

/**
 * What an executor keeps open of stateful operators between micro-batches, by partition. The task that checks
 * something out has it alone, and checks it in once its next version is committed. Thread-safe.
 */
private[pillarbox] abstract class OpenPartitions[A <: AnyRef] {
  protected val idle = new ConcurrentHashMap[StatePartition, A]

  /** Ends what this executor has no use for any more. */
  protected def discard(open: A): Unit

  /** Ends what another attempt left. */
  protected def replaced(old: A, open: A): Unit

  /** What is open and idle of a partition, whatever its version. */
  protected def take(partition: StatePartition): Option[A] = Option(idle.remove(partition))

  /** What has just been committed. */
  def checkIn(partition: StatePartition, open: A): Unit = {
    val old = idle.put(partition, open)
    if (old != null) replaced(old, open)
  }

  /** Those that are here and idle. */
  def partitions: Seq[StatePartition] = idle.keySet.asScala.toSeq

  /** What is open and idle is of use: asked now and then. */
  def isOfUse(open: A): Unit = ()

  /** Asks so of a partition that is here. */
  def keep(partition: StatePartition): Unit = Option(idle.get(partition)).foreach(isOfUse)

  /** Frees what this executor has no use for any more. */
  def unload(partition: StatePartition): Unit = take(partition).foreach(discard)
}
