package io.pillarbox.spark.state

import java.util.concurrent.atomic.AtomicBoolean

import scala.util.control.NonFatal

import io.pillarbox.spark.checkpoint.{SharedFile, StateVersion}
import io.pillarbox.spark.task.OperatorFigure
import org.apache.spark.sql.pillarbox.StatePartition
import org.slf4j.LoggerFactory

/**
 * The state that this executor keeps open between micro-batches. A task whose commit fails closes its state,
 * so each state here is exactly a committed version. Thread-safe.
 */
private[pillarbox] object OpenStates extends OpenPartitions[VersionedState] {
  private val log = LoggerFactory.getLogger(getClass)

  /**
   * Returns the idle state of `partition` at `version`. State of any other version is closed.
   *
   * @throws InterruptedException if interrupted while a snapshot is taken of it; it stays open and idle then
   */
  def checkOut(partition: StatePartition, version: StateVersion): Option[VersionedState] =
    take(partition).flatMap { state =>
      if (version.isMetBy(state.version)) Some(state)
      else {
        state.close()
        None
      }
    }

  /** Waits until no snapshot is being taken, before the state is removed: an interrupt must not lose it. */
  override protected def take(partition: StatePartition): Option[VersionedState] =
    Option(idle.get(partition)).flatMap { state =>
      state.awaitReserve()
      try Option.when(idle.remove(partition, state))(state)
      finally state.release()
    }

  override protected def replaced(old: VersionedState, state: VersionedState): Unit =
    StateMaintenance.close(old)

  override protected def discard(state: VersionedState): Unit = state.close()

  /**
   * Closes what an earlier run of the query has left open of a partition: memory may not hold both. What fails
   * is no failure of the run that is here.
   */
  def unloadEarlier(partition: StatePartition): Unit =
    partitions.filter(_.isOfOtherRun(partition)).foreach { earlier =>
      try unload(earlier)
      catch { case NonFatal(e) => log.warn(s"Could not unload $earlier", e) }
    }

  /** Sweeps the state of a partition, which a task may check out meanwhile. */
  private[state] def sweep(partition: StatePartition): Unit =
    Option(idle.get(partition)).foreach(_.state.sweep())

  /** Runs `action` on idle state, while a task that checks it out waits. False if it is not idle. */
  private[state] def whileIdle(partition: StatePartition)(action: VersionedState => Unit): Boolean = {
    val state = idle.get(partition)
    state != null && state.reserve() && {
      try
        if (idle.get(partition) eq state) {
          action(state)
          true
        } else false
      finally state.release()
    }
  }
}

/**
 * Open state with its version.
 *
 * @param deltas the deltas committed since the last snapshot
 * @param tables the files of its database that the last snapshot left in the checkpoint, by their local names
 */
private[pillarbox] final class VersionedState(
    val state: PartitionState,
    @volatile var version: StateVersion,
    @volatile var deltas: Int,
    @volatile var tables: Map[String, SharedFile] = Map.empty
) extends AutoCloseable {
  private val inSnapshot = new java.util.concurrent.Semaphore(1)
  private val closed = new AtomicBoolean
  @volatile private var hide: () => Unit = () => ()

  /** The size of the last snapshot, 0 before the first, and of the deltas since then. */
  @volatile var snapshotBytes = 0L
  @volatile var logBytes = 0L

  /** True once a snapshot was taken of it while it is open. */
  @volatile private var hasSnapshot = false

  /** True from a request for a snapshot until it is done with. */
  @volatile private var isAsked = false

  /** True if the cache was written since the last snapshot. */
  @volatile private var hasWritten = false

  /** Tells that one more delta was committed. */
  private[state] def committed(bytes: Long): Unit = {
    deltas += 1
    logBytes += bytes
  }

  private[state] def snapshotTaken(bytes: Long): Unit = {
    hasSnapshot = true
    hasWritten = false
    deltas = 0
    logBytes = 0
    snapshotBytes = bytes
  }

  /**
   * Asks for a snapshot: true after `every` deltas, and once they are large, half as large as the last
   * snapshot, since deltas take longer to read than as much of a snapshot. The first one is due sooner, and
   * that of each partition at another time, so that no micro-batch waits for the snapshots of all. Who is told
   * true has it taken, and calls [[snapshotEnded]] in the end; it is not true again before.
   *
   * @param partition the number of its partition
   */
  private[state] def askSnapshot(every: Int, partition: Int): Boolean = {
    val isDue = !isAsked && isAt(if (hasSnapshot) 1.0 else VersionedState.firstPart(partition), every)
    if (isDue) isAsked = true
    isDue
  }

  /** Tells that the snapshot was taken, or could not be. Any thread. */
  private[state] def snapshotEnded(): Unit = isAsked = false

  /** Asks once, half-way to a snapshot, for a large cache to be written: less is left for the snapshot. */
  private[state] def askWrite(every: Int): Boolean = {
    val isDue = !hasWritten && isAt(0.5, every) && state.cacheUsed >= VersionedState.LargeCache
    if (isDue) hasWritten = true
    isDue
  }

  private def isAt(part: Double, every: Int): Boolean =
    deltas >= part * every || logBytes >= part * math.max(VersionedState.LargeLog, snapshotBytes / 2)

  private[state] def reserve(): Boolean = inSnapshot.tryAcquire()

  private[state] def release(): Unit = inSnapshot.release()

  /** Waits until nobody else has it, not even for a snapshot. */
  private[state] def awaitReserve(): Unit = inSnapshot.acquire()

  /** Shows the number of entries in Spark's metrics system, until the state is closed. */
  def show(operator: String, entries: Long): Unit = {
    val figure = OperatorFigure.of(operator, "stateEntries")
    hide()
    figure.add(entries)
    hide = () => figure.add(-entries)
  }

  override def close(): Unit = if (closed.compareAndSet(false, true)) {
    hide()
    state.close()
  }
}

private object VersionedState {

  /** The least size of deltas for which a snapshot is taken sooner: about a quarter of a second of reading. */
  private final val LargeLog = 64L << 20

  /** The bytes of a cache that take about a tenth of a second to be written. */
  private final val LargeCache = 16L << 20

  /** Multiples of the golden ratio are as far apart, after the point, as those of any number can be. */
  private def firstPart(partition: Int): Double = 1 - partition * 0.6180339887498949 % 1
}
