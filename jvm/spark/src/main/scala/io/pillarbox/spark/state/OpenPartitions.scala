package io.pillarbox.spark.state

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.pillarbox.StatePartition

/**
 * The objects of stateful operators that an executor keeps open between micro-batches, by partition. A task
 * that checks one out has it alone, and checks it in once its next version is committed. Thread-safe.
 */
private[pillarbox] abstract class OpenPartitions[A <: AnyRef] {
  protected val idle = new ConcurrentHashMap[StatePartition, A]

  /** Closes an object that this executor does not need any more. */
  protected def discard(open: A): Unit

  /** Closes an object that another attempt has left. */
  protected def replaced(old: A, open: A): Unit

  /** Removes the idle object of a partition, whatever its version. */
  protected def take(partition: StatePartition): Option[A] = Option(idle.remove(partition))

  /** Adds an object whose version has just been committed. */
  def checkIn(partition: StatePartition, open: A): Unit = {
    val old = idle.put(partition, open)
    if (old != null) replaced(old, open)
  }

  def partitions: Seq[StatePartition] = idle.keySet.asScala.toSeq

  /** Called now and then for a partition that this executor is the one to have. */
  def keep(partition: StatePartition): Unit = ()

  /** Removes and closes the object of a partition. */
  def unload(partition: StatePartition): Unit = take(partition).foreach(discard)
}
