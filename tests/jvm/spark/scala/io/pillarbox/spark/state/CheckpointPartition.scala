package io.pillarbox.spark.state

import java.io.OutputStream
import java.nio.file.{Files, Path => LocalPath}

import scala.jdk.CollectionConverters._

import io.pillarbox.api.{TimeDomain, ValueState}
import io.pillarbox.spark.checkpoint._
import io.pillarbox.state.{Namespace, TestState}
import org.apache.commons.io.FileUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.StructType

/** A partition's folder in which versions are committed by hand. Keys and values are longs. */
final class CheckpointPartition(
    operator: LocalPath,
    names: FileNames,
    storage: StateStorage,
    number: Int = 0,
    layout: StateLayout = StateLayout(1),
    scheme: String = "file"
) {
  import CheckpointPartition._

  val local: LocalPath = operator.resolve(number.toString)

  val files: PartitionFiles = {
    val conf = new Configuration
    OddFileSystem.install("flaky", conf)
    new PartitionFiles(new HadoopPath(scheme, "", operator.toString), number, layout, conf)
  }
  val folder: StateFolder = files.folder
  val tables = new SharedTables(folder.path, folder.conf)

  def loader: StateLoader = loaderOf(storage)

  def loaderOf(storage: StateStorage): StateLoader = new StateLoader(
    files,
    schema,
    () => StateBackends.forStream(storage, schema, Memory),
    from =>
      Option.when(StateBackends.canAdopt(storage, from))(
        StateBackends.forStream(storage, schema, Memory, Some(from))
      )
  )

  def value(open: PartitionState): ValueState[UnsafeRow] =
    open.backend.getOrCreate(TestState.value("v", new UnsafeRowSerializer(schema)))

  /** Sets a key's value and a timer, and commits. */
  def commit(open: VersionedState, id: String, key: Long, to: Long): VersionedState = {
    update(open, key, Some(to))
    open.state.timers.register(TimeDomain.EVENT_TIME, Namespace.Void, to)
    commit(open, id)
  }

  def update(open: VersionedState, key: Long, to: Option[Long]): Unit = {
    val handle = value(open.state)
    open.state.backend.setCurrentKey(row(key))
    to.fold(handle.clear())(to => handle.update(row(to)))
  }

  def commit(open: VersionedState, id: String): VersionedState = {
    val next = open.version.number + 1
    write(StateFileKind.Delta, next, id, open.version.id) { out =>
      open.state.backend.commit(out): Unit
    }(open.state.timers.commit)
    new VersionedState(open.state, StateVersion(next, Some(id)), open.deltas + 1, open.tables)
  }

  /** In the portable format. */
  def snapshot(open: VersionedState): Unit =
    write(StateFileKind.Snapshot, open.version.number, open.version.id.get, None)(
      open.state.backend.snapshot(_): Unit
    )(open.state.timers.snapshot)

  /** As a stream takes it. */
  def ownSnapshot(open: VersionedState): Unit = {
    val scratch = Files.createTempDirectory("snapshot")
    try open.tables = SnapshotWriter.take(open, scratch).upload(folder, tables)
    finally FileUtils.deleteDirectory(scratch.toFile)
  }

  def cleanUp(open: VersionedState, oldest: Long): Unit =
    files.history.deleteBefore(
      oldest,
      open.version,
      tables
    )

  def write(kind: StateFileKind, version: Long, id: String, base: Option[String])(
      state: OutputStream => Unit
  )(
      timers: OutputStream => Unit
  ): Unit = folder.write(file(kind, version, id))(
    StateFileFormat.write(_, StateFileFormat.Header(id, base))(state)(timers)
  ): Unit

  def file(kind: StateFileKind, version: Long, id: String): StateFile =
    StateFile(kind, version, Some(id))

  /** As Spark asks for it. */
  def named(version: Long, id: String): StateVersion = StateVersion(version, names.asked(id))

  def load(version: Long, id: String): VersionedState = loader.load(named(version, id))

  def read(open: VersionedState, key: Long): Option[Long] = {
    val handle = value(open.state)
    open.state.backend.setCurrentKey(row(key))
    Option(handle.value()).map(_.getLong(0))
  }

  def timers(open: VersionedState): Int = open.state.timers.numTimers(TimeDomain.EVENT_TIME)

  def tableNames: Seq[String] = namesIn(local.resolve("tables"))

  def damage(file: StateFile): Unit = damage(local.resolve(file.name))

  /** Cuts the end off. */
  def damage(path: LocalPath): Unit = {
    val bytes = Files.readAllBytes(path)
    Files.write(path, bytes.take(bytes.length - 7))
    Files.deleteIfExists(path.resolveSibling(s".${path.getFileName}.crc")): Unit
  }

  private def namesIn(folder: LocalPath): Seq[String] =
    if (!Files.exists(folder)) Nil
    else {
      val files = Files.list(folder)
      try files.iterator.asScala.map(_.getFileName.toString).filter(_.endsWith(".sst")).toSeq.sorted
      finally files.close()
    }
}

/**
 * Spark's format of checkpoints.
 *
 * @param areKnown
 *   whether Spark tells whose files count
 */
sealed abstract class FileNames(text: String, areKnown: Boolean) {
  def asked(id: String): Option[String] = Option.when(areKnown)(id)

  override def toString: String = text
}

object FileNames {

  case object Attempts extends FileNames("1", areKnown = false)

  case object Ids extends FileNames("2", areKnown = true)

  val all: Seq[FileNames] = Seq(Attempts, Ids)
}

object CheckpointPartition {
  private val Memory = 16L << 20
  private val schema = StructType.fromDDL("x bigint")
  private val toRow = UnsafeProjection.create(schema)

  private val kinds = Seq(StorageKind.Heap, StorageKind.RocksDB).map(kind => kind.name -> kind).toMap

  val Heap: StateStorage = storageOf("heap", "heap")
  val RocksDB: StateStorage = storageOf("rocksdb", "rocksdb")

  def storageOf(state: String, timers: String): StateStorage =
    StateStorage(kinds(state), kinds(timers))

  def row(x: Long): UnsafeRow = toRow(InternalRow(x)).copy()

  def use(names: FileNames, storage: StateStorage)(body: CheckpointPartition => Unit): Unit = {
    val local = Files.createTempDirectory("state-files")
    try body(new CheckpointPartition(local, names, storage))
    finally FileUtils.deleteDirectory(local.toFile)
  }
}
