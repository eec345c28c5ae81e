package io.pillarbox.spark.state

import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{CopyOnWriteArraySet, Executors, ThreadFactory, TimeUnit}

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.checkpoint._
import org.apache.spark.sql.pillarbox.{LocalFolder, LocalFolders, StatePartition}
import org.slf4j.LoggerFactory

/**
 * The work on state in the background: snapshots, deletion of files that no version needs, and closing of
 * state that this executor does not need any more. A failure is logged, and the work is tried again at its
 * next occasion.
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

  /** Starts to look for state to close every `intervalMs`. Only the first call counts. */
  def start(intervalMs: Long): Unit =
    if (started.compareAndSet(false, true))
      executor.scheduleWithFixedDelay(
        () => logging("look for state to close")(tidy()),
        intervalMs,
        intervalMs,
        TimeUnit.MILLISECONDS
      )

  /** Adds `pool` to the places where state to close is looked for. */
  def watch(pool: OpenPartitions[_], intervalMs: Long): Unit = {
    watched.add(pool)
    start(intervalMs)
  }

  /** Runs `action` soon, on another thread. The log calls it `what` if it fails. */
  def later(what: String)(action: => Unit): Unit = inBackground(what)(action)

  /** Takes a snapshot of the state if it is idle, then deletes old files. Soon, on another thread. */
  def snapshotSoon(partition: StatePartition, state: VersionedState, settings: StateSettings): Unit =
    inBackground(s"take a snapshot of $partition") {
      try snapshot(partition, settings)
      finally state.snapshotEnded()
    }

  /** Writes what the cache of idle state holds to its database. Soon, on another thread. */
  def writeSoon(partition: StatePartition): Unit = inBackground(s"write the cache of $partition") {
    OpenStates.whileIdle(partition) { versioned =>
      versioned.state.takeOver()
      versioned.state.writeCache()
    }: Unit
  }

  def unload(partition: StatePartition): Unit =
    inBackground(s"unload $partition")(OpenStates.unload(partition))

  /** Closes state, which can take a moment, on another thread. */
  def close(state: VersionedState): Unit = inBackground("close state")(state.close())

  /** Returns when all that was asked for before is done; tests of Scala and Python wait by it. */
  private[pillarbox] def awaitDone(): Unit =
    executor.submit((() => ()): Runnable).get(1, TimeUnit.MINUTES): Unit

  private def tidy(): Unit = {
    unloadInactive()
    if (watched.asScala.exists(_.partitions.nonEmpty)) NativeHeap.trim()
  }

  /** Closes the state of queries that have ended and of partitions that went elsewhere. */
  private[pillarbox] def unloadInactive(): Unit =
    for {
      pool <- watched.asScala
      partition <- pool.partitions
    } logging(s"unload $partition") {
      if (partition.isActive) pool.keep(partition) else pool.unload(partition)
    }

  /**
   * State is reserved only while it is copied to the local disk; the upload comes after. The next micro-batch
   * opens a database that has outgrown its options from that snapshot.
   */
  private def snapshot(partition: StatePartition, settings: StateSettings): Unit = {
    OpenStates.sweep(partition)
    var local: LocalFolder = null
    try {
      var taken = Option.empty[(VersionedState, SnapshotWriter)]
      OpenStates.whileIdle(partition) { versioned =>
        versioned.state.takeOver()
        local = LocalFolders.beside(versioned.state.directory, "snapshot")
        val writer = SnapshotWriter.take(versioned, local.path)
        taken = Some(versioned -> writer)
        versioned.snapshotTaken(writer.bytes)
      }
      taken.foreach { case (versioned, writer) =>
        versioned.tables = upload(partition, settings, writer)
        if (versioned.state.hasOutgrown) OpenStates.unload(partition)
      }
    } finally if (local != null) local.close()
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
    new StateHistory(folder, settings.since).deleteBefore(oldest, writer.version, tables)
    shared
  }

  private def inBackground(what: String)(action: => Unit): Unit =
    executor.execute(() => logging(what)(action))

  /** Errors too, as of a class that is not there any more: the thread has work of all queries. */
  private def logging(what: String)(action: => Unit): Unit =
    try action
    catch { case e: Throwable => log.warn(s"Could not $what", e) }
}
