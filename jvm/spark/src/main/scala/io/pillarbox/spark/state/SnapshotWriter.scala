package io.pillarbox.spark.state

import java.nio.file.{Files, Path => LocalPath}

import scala.jdk.CollectionConverters._

import io.pillarbox.spark.checkpoint._
import io.pillarbox.state.rocksdb.RocksDBKeyedStateBackend
import org.apache.spark.sql.pillarbox.LocalFolders

/**
 * A snapshot of open state, in two steps: [[SnapshotWriter.take]] copies it to the local disk, while nobody
 * else uses it; [[upload]] copies it to the checkpoint, while the next micro-batch runs.
 *
 * With a database the first step only makes hard links, and the second copies only the tables that the
 * checkpoint does not have yet.
 */
private[state] sealed abstract class SnapshotWriter(val version: StateVersion) {

  /** The size of all that a restart reads of it. Before [[upload]]. */
  def bytes: Long

  /** Writes the snapshot's file. Returns the tables of the database that are in the checkpoint then. */
  def upload(folder: StateFolder, tables: SharedTables): Map[String, SharedFile]

  protected def file(kind: StateFileKind): StateFile = StateFile(kind, version.number, version.id)
}

private[state] object SnapshotWriter {

  /**
   * Copies state to the local disk. The calling thread has the state alone.
   *
   * @param local an empty folder
   */
  def take(versioned: VersionedState, local: LocalPath): SnapshotWriter = {
    val (state, version) = (versioned.state, versioned.version)
    val header =
      StateFileFormat.Header(version.id.getOrElse(""), None, entries = state.backend.entryCount)
    state.backend match {
      case database: RocksDBKeyedStateBackend[_] =>
        if (state.timersInDatabase) state.timers.flush()
        else LocalFolders.write(local.resolve(Timers))(state.timers.snapshot)
        database.checkpoint(local.resolve(Database))
        new OfDatabase(version, header, local, versioned.tables)
      case backend =>
        LocalFolders.write(local.resolve(Whole)) { out =>
          StateFileFormat.write(out, header)(backend.snapshot(_): Unit)(state.timers.snapshot)
        }
        new Portable(version, local)
    }
  }

  private final val Timers = "timers"
  private final val Database = "database"
  private final val Whole = "snapshot"

  private final class Portable(version: StateVersion, local: LocalPath) extends SnapshotWriter(version) {

    override def bytes: Long = Files.size(local.resolve(Whole))

    override def upload(folder: StateFolder, tables: SharedTables): Map[String, SharedFile] = {
      folder.write(file(StateFileKind.Snapshot))(Files.copy(local.resolve(Whole), _): Unit): Unit
      Map.empty
    }
  }

  /** @param known tables that are in the checkpoint already, by their local names */
  private final class OfDatabase(
      version: StateVersion,
      header: StateFileFormat.Header,
      local: LocalPath,
      known: Map[String, SharedFile]
  ) extends SnapshotWriter(version) {

    override def bytes: Long = filesOf(local.resolve(Database)).map(Files.size(_)).sum

    override def upload(folder: StateFolder, tables: SharedTables): Map[String, SharedFile] = {
      val (sorted, small) =
        filesOf(local.resolve(Database)).partition(_.getFileName.toString.endsWith(".sst"))
      val shared = InParallel(sorted.map(table => () => sharedOf(table, tables)))
      val timers = local.resolve(Timers)
      val manifest = DatabaseManifest(!Files.exists(timers), shared, small.map(contentOf))
      folder.write(file(StateFileKind.Database)) { out =>
        StateFileFormat.write(out, header)(manifest.writeTo)(section =>
          if (!manifest.timersInside) Files.copy(timers, section): Unit
        )
      }: Unit
      shared.map(table => table.local -> table).toMap
    }

    /** Within the life of a database, copies of it included, a name means one content. */
    private def sharedOf(table: LocalPath, tables: SharedTables): SharedFile =
      known
        .get(table.getFileName.toString)
        .filter(_.bytes == Files.size(table))
        .getOrElse(tables.add(table, version.number))

    private def contentOf(file: LocalPath): (String, Array[Byte]) =
      file.getFileName.toString -> Files.readAllBytes(file)

    private def filesOf(folder: LocalPath): Seq[LocalPath] = {
      val files = Files.list(folder)
      try files.iterator.asScala.toSeq.sortBy(_.getFileName.toString)
      finally files.close()
    }
  }
}
