package io.pillarbox.spark.state

import java.io.{BufferedInputStream, ByteArrayInputStream, ByteArrayOutputStream, InputStream}
import java.nio.file.{Files, Path => LocalPath}

import io.pillarbox.spark.checkpoint._
import io.pillarbox.state.KeyPart
import io.pillarbox.state.rocksdb.RocksDBKeyedStateBackend
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.pillarbox.{LocalFolder, LocalFolders}

/**
 * The files of a database on the local disk, from a snapshot.
 *
 * @param timersInside true if it has the timers, too
 * @param part the keys whose state is taken from it; None for all
 */
private[pillarbox] final case class LocalDatabase(
    folder: LocalFolder,
    timersInside: Boolean,
    part: Option[KeyPart[UnsafeRow]] = None
)

/**
 * Opens state on the database of a snapshot, or copies its content where state is kept in another way.
 *
 * @param target the state that the content is copied into
 */
private[state] final class DatabaseReader(
    folder: StateFolder,
    target: () => PartitionState,
    adopt: LocalDatabase => Option[PartitionState]
) {
  private val tables = new SharedTables(folder.path, folder.conf)

  /**
   * @param taken the keys whose state is taken; null for all
   * @throws io.pillarbox.state.StateException if a file is missing or damaged, with its name
   */
  def read(file: StateFile, taken: TakenKeys): DatabaseReader.Opened = {
    val source = folder.pathOf(file).toString
    var manifest: DatabaseManifest = null
    val timers = new ByteArrayOutputStream
    val header = folder.read(file) { in =>
      StateFileFormat.read(in, source)(part => manifest = DatabaseManifest.readFrom(part, source))(part =>
        part.transferTo(timers): Unit
      )
    }
    val local = download(manifest, source)
    val database = LocalDatabase(local, manifest.timersInside)
    val some = Option(taken).filterNot(_.isAll)
    val part = some.map(_.partOf(header.entries))
    def keeps = some.map(_.test).orNull
    closingIfFails(local)(adopt(database.copy(part = part))) match {
      case Some(state) =>
        if (!manifest.timersInside)
          closingIfFails(state)(
            state.timers.restore(new ByteArrayInputStream(timers.toByteArray), source, keeps)
          )
        DatabaseReader.Opened(
          state,
          manifest.tables.map(table => table.local -> table).toMap,
          header,
          manifest.bytes
        )
      case None =>
        copy(database, timers.toByteArray, source, keeps)
        DatabaseReader.Opened(target(), Map.empty, header, manifest.bytes)
    }
  }

  private def download(manifest: DatabaseManifest, source: String): LocalFolder = {
    val local = LocalFolders.create("rocksdb")
    closingIfFails(local) {
      InParallel(manifest.tables.map(table => () => tables.fetch(table, local.path, source)))
      manifest.small.foreach { case (name, content) => Files.write(local.path.resolve(name), content) }
    }
    local
  }

  /** Copies the content from one database to the other, or in the portable format, by way of the local disk. */
  private def copy(
      database: LocalDatabase,
      timers: Array[Byte],
      source: String,
      keeps: UnsafeRow => Boolean
  ): Unit = {
    val into = target()
    val scratch = LocalFolders.create("convert")
    try {
      val (content, due) = (scratch.path.resolve("state"), scratch.path.resolve("timers"))
      val opened = StateBackends.overDatabase(into.backend.keySerializer, database)
      try {
        (opened.backend, into.backend) match {
          case (from: RocksDBKeyedStateBackend[UnsafeRow], to: RocksDBKeyedStateBackend[UnsafeRow]) =>
            to.restoreFrom(from, keeps)
          case (from, _) => LocalFolders.write(content)(from.snapshot(_): Unit)
        }
        if (database.timersInside) LocalFolders.write(due)(opened.timers.snapshot)
        else Files.write(due, timers): Unit
      } finally opened.close()
      if (Files.exists(content)) readFrom(content)(into.backend.restore(_, source, keeps))
      readFrom(due)(into.timers.restore(_, source, keeps))
    } finally scratch.close()
  }

  private def closingIfFails[A](resource: AutoCloseable)(action: => A): A =
    try action
    catch {
      case e: Throwable =>
        resource.close()
        throw e
    }

  private def readFrom(file: LocalPath)(content: InputStream => Unit): Unit = {
    val in = new BufferedInputStream(Files.newInputStream(file))
    try content(in)
    finally in.close()
  }
}

private[state] object DatabaseReader {

  /**
   * @param tables the tables of the database that are in the checkpoint, by their local names
   * @param bytes the size of the snapshot
   */
  final case class Opened(
      state: PartitionState,
      tables: Map[String, SharedFile],
      header: StateFileFormat.Header,
      bytes: Long
  )
}
