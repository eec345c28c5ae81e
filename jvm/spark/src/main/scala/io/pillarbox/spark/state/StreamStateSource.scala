package io.pillarbox.spark.state

import io.pillarbox.spark.checkpoint._
import io.pillarbox.state.CommitSummary
import io.pillarbox.state.rocksdb.store.RocksDBMemory
import org.apache.spark.TaskContext
import org.apache.spark.sql.pillarbox.TaskKills

/**
 * The state of a partition for one micro-batch: found open or loaded, and committed as one more delta.
 *
 * An attempt that does not commit closes the state, so no other attempt sees its changes.
 *
 * @param number the partition's
 * @param from what the micro-batch starts from
 */
private[pillarbox] final class StreamStateSource(
    task: StateTaskSpec,
    commits: PartitionCommits[DueTimes],
    number: Int,
    from: PartitionBase,
    taskContext: TaskContext
) extends StateSource {
  import commits.settings

  private val partition = commits.partitionOf(number)
  private val base = from.version
  private val files =
    new PartitionFiles(partition.folder.getParent, number, commits.layout, settings.configuration)
  private val folder = files.folder
  private val next = StateVersion(base.number + 1, Some(settings.newId(taskContext)))

  /** The delta that the commit writes; null before the state is open, and once it is written. */
  private var delta: StateFiles.Unfinished = _
  private var versioned: VersionedState = _
  private var committed = false

  override def open(): PartitionState = {
    val start = System.nanoTime
    val found = OpenStates.checkOut(partition, base)
    versioned = found.getOrElse(load())
    // What has moved elsewhere is found by a partition that is new here, or else by the maintenance.
    val others = if (found.isEmpty) OpenStates.partitions else Nil
    partition.reportActive(others).foreach(StateMaintenance.unload)
    StateMaintenance.start(settings.maintenanceMs)
    found.foreach(_ => count(StateTaskSpec.BackendReused, 1))
    count(StateTaskSpec.LoadMs, millisSince(start))
    versioned.state.backend.noteWatermark(task.watermark)
    versioned.state.backend.timeIs(task.batchTime)
    delta = folder.begin(StateFile(StateFileKind.Delta, next.number, next.id))
    versioned.state
  }

  override def close(): Unit =
    try if (delta != null) delta.cancel()
    finally if (versioned != null && !committed) versioned.close()

  override def commit(): Unit = {
    TaskKills.check(taskContext)
    val start = System.nanoTime
    var summary: CommitSummary = null
    val file = delta
    delta = null
    val bytes = file.finish { out =>
      StateFileFormat.write(out, header) { section =>
        summary = versioned.state.backend.commit(section)
      }(versioned.state.timers.commit)
    }
    versioned.version = next
    versioned.committed(bytes)
    count("commitTimeMs", millisSince(start))
    count(StateTaskSpec.CommitBytes, bytes)
    published(summary)
  }

  private def header = StateFileFormat.Header(
    next.id.get,
    versioned.version.id,
    versioned.state.dueTimes,
    versioned.state.backend.entryCount
  )

  private def published(summary: CommitSummary): Unit = {
    val metrics = versioned.state.backend.metrics
    count("numTotalStateRows", metrics.entries)
    count("numUpdatedStateRows", summary.entries - summary.removals)
    count("numRemovedStateRows", summary.removals)
    count("stateMemory", math.max(metrics.memoryBytes, 0L))
    count(StateTaskSpec.FileBytes, metrics.fileBytes)
    count("numStateStoreInstances", 1)
    versioned.show(task.operator, metrics.entries)
    count(StateTaskSpec.TimersWaiting, versioned.state.timers.estimatedTimers())
    val due = versioned.state.dueTimes
    show(StateTaskSpec.NextEventTimer, due.eventTime, task.watermark)
    // Which goes on in real-time mode.
    val now = math.max(task.batchTime, versioned.state.clock.processingTime)
    show(StateTaskSpec.NextProcessingTimer, due.processingTime, now)
    commits.committed(number, from, next, due)
    checkIn()
  }

  /** Shows how long it is to a timer, if there is one. */
  private def show(metric: String, due: Long, now: Long): Unit =
    if (due != Long.MaxValue && now != Long.MinValue)
      task.metrics.get(metric).foreach(_.set(math.max(0L, due - now)))

  private def checkIn(): Unit = {
    // A snapshot after the first micro-batch of these partitions would take its tasks' processors.
    val isFirst = commits.layout.beginsWith(base.number)
    val takeSnapshot = !isFirst && versioned.askSnapshot(settings.snapshotEvery, partition.partition)
    val writeCache = !isFirst && !takeSnapshot && versioned.askWrite(settings.snapshotEvery)
    committed = true
    versioned.state.backend.clearCurrentKey()
    OpenStates.checkIn(partition, versioned)
    if (takeSnapshot) StateMaintenance.snapshotSoon(partition, versioned, settings)
    if (writeCache) StateMaintenance.writeSoon(partition)
  }

  private def load(): VersionedState = {
    OpenStates.unloadEarlier(partition)
    val clockBehind = math.max(0L, System.currentTimeMillis - task.batchTime)
    val memory = settings.rocksDBMemory.getOrElse(RocksDBMemory.default)
    def make(from: Option[LocalDatabase]) =
      StateBackends.forStream(task.storage, task.keySchema, memory, from, clockBehind)
    def fits(database: LocalDatabase) = StateBackends.canAdopt(task.storage, database)
    new StateLoader(
      files,
      task.keySchema,
      () => make(None),
      database => Option.when(fits(database))(make(Some(database)))
    ).load(base)
  }

  private def count(metric: String, by: Long): Unit = task.metrics.get(metric).foreach(_ += by)

  private def millisSince(nanos: Long): Long = (System.nanoTime - nanos) / 1000000
}
