package io.pillarbox.spark.state

import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{CopyOnWriteArraySet, Executors, ThreadFactory, TimeUnit}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import io.pillarbox.spark.checkpoint._
import org.apache.spark.sql.pillarbox.{LocalFolders, StatePartition}
import org.slf4j.LoggerFactory

/**
 * What is done to state in the background: snapshots, deletion of files that no version needs, and closing
 * what this executor does not need any more. A failure is logged and the work is tried again at its next
 * occasion.
 */
private[pillarbox] object StateMaintenance {
  private val log = LoggerFactory.getLogger(getClass)
  private val started = new AtomicBoolean
  private val watched = new CopyOnWriteArraySet[OpenPartitions[_]](java.util.List.of(OpenStates))

  private val threads: ThreadFactory = { action =>
    val thread = new Thread(action, "pillarbox state maintenance")
    thread.setDaemon(true)
    thread
  }
  private lazy val executor = Executors.newSingleThreadScheduledExecutor(threads)

  /** Looks for state to close every `intervalMs`, from the first call on. */
  def start(intervalMs: Long): Unit =
    if (started.compareAndSet(false, true))
      executor.scheduleWithFixedDelay(() => unloadInactive(), intervalMs, intervalMs, TimeUnit.MILLISECONDS)

  /** Looks for what of `pool` is to be closed too. */
  def watch(pool: OpenPartitions[_], intervalMs: Long): Unit = {
    watched.add(pool)
    start(intervalMs)
  }

  /** Runs `action`, which `what` names in the log if it fails, soon, on another thread. */
  def later(what: String)(action: => Unit): Unit = inBackground(what)(action)

  /** Takes a snapshot of what is open and idle, then deletes old files; soon, on another thread. */
  def snapshotSoon(partition: StatePartition, settings: StateSettings): Unit =
    inBackground(s"take a snapshot of $partition")(snapshot(partition, settings))

  def unload(partition: StatePartition): Unit =
    inBackground(s"unload $partition")(OpenStates.unload(partition))

  /** Closes state; that can take a moment. */
  def close(state: VersionedState): Unit = inBackground("close state")(state.close())

  /** Returns when all that was asked for before is done; for tests. */
  private[pillarbox] def awaitDone(): Unit =
    executor.submit((() => ()): Runnable).get(1, TimeUnit.MINUTES): Unit

  /** Closes the state of queries that have ended and of partitions that went elsewhere. */
  private[pillarbox] def unloadInactive(): Unit =
    for {
      pool <- watched.asScala
      partition <- pool.partitions
    }
      try if (partition.isActive) pool.keep(partition) else pool.unload(partition)
      catch { case NonFatal(e) => log.warn(s"Could not unload $partition", e) }

  /** State waits only while it is copied to the local disk; the upload comes after. */
  private def snapshot(partition: StatePartition, settings: StateSettings): Unit = {
    val local = LocalFolders.create("snapshot")
    try {
      var taken = Option.empty[(VersionedState, SnapshotWriter)]
      OpenStates.whileIdle(partition) { versioned =>
        versioned.state.takeOver()
        taken = Some(versioned -> SnapshotWriter.take(versioned, local.path))
        versioned.deltas = 0
      }
      taken.foreach { case (versioned, writer) =>
        versioned.tables = upload(partition, settings, writer)
      }
    } finally local.close()
  }

  private def upload(
      partition: StatePartition,
      settings: StateSettings,
      writer: SnapshotWriter
  ): Map[String, SharedFile] = {
    val folder = new StateFolder(partition.folder, settings.configuration)
    val tables = new SharedTables(partition.folder, settings.configuration)
    val shared = writer.upload(folder, tables)
    partition.reportSnapshot(writer.version.number)
    val oldest = writer.version.number - settings.versionsToRetain
    new StateHistory(folder).deleteBefore(oldest, writer.version, tables)
    shared
  }

  private def inBackground(what: String)(action: => Unit): Unit = executor.execute { () =>
    try action
    catch { case NonFatal(e) => log.warn(s"Could not $what", e) }
  }
}
