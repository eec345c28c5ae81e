package io.pillarbox.spark.state

import java.io.{EOFException, UTFDataFormatException}

import io.pillarbox.spark.checkpoint._
import io.pillarbox.state.{StateException, StateRestoreException}
import org.apache.hadoop.fs.{ChecksumException, Path}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType
import org.slf4j.LoggerFactory

/**
 * Builds the state of a version from files.
 *
 * A damaged snapshot is passed over if the deltas before and after it still exist; a damaged delta is an
 * error that names the file. What a file system can't do now fails the task, which Spark tries again.
 *
 * @param keys the columns of the keys
 * @param empty makes empty state
 * @param adopt opens state on the files of a database, which it takes over, or leaves it alone and says None:
 *   then the content goes into empty state
 */
private[pillarbox] final class StateLoader(
    files: PartitionFiles,
    keys: StructType,
    empty: () => PartitionState,
    adopt: LocalDatabase => Option[PartitionState] = _ => None
) {

  /** @throws StateException if a file is missing, damaged, or written by something else */
  def load(version: StateVersion): VersionedState = load(version, Set.empty)

  private def load(version: StateVersion, skipped: Set[Path]): VersionedState = {
    val loading = new Loading(skipped)
    try {
      loading.read(files, version)
      loading.versioned(version.number)
    } catch {
      case e: Exception if loading.snapshot.isDefined && StateLoader.isDamage(e) =>
        loading.close()
        StateLoader.log.warn("A snapshot can't be read; loading what it was made from", e)
        withoutSnapshot(e)(load(version, skipped ++ loading.snapshot))
      case e: Throwable =>
        loading.close()
        throw e
    }
  }

  /** Throws the damage of a snapshot if the files that it was made from are gone. */
  private def withoutSnapshot(damage: Throwable)(load: => VersionedState): VersionedState =
    try load
    catch {
      case e: StateRestoreException if e.condition == "STATE_FILE_MISSING" =>
        damage.addSuppressed(e)
        throw damage
    }

  private final class Loading(skipped: Set[Path]) {
    private var state: PartitionState = _
    private var id = Option.empty[String]
    private var entries = Option.empty[Long]
    private var deltas = 0
    private var snapshotBytes = 0L
    private var logBytes = 0L
    private var tables = Map.empty[String, SharedFile]

    /** The full file that is being read. */
    var snapshot = Option.empty[Path]

    /**
     * Reads a partition's files for a version, and before them those of the partitions that it began in.
     *
     * @param taken the keys whose state is taken; null for all
     */
    def read(from: PartitionFiles, version: StateVersion, taken: TakenKeys = null): Unit = {
      val path = from.history.pathTo(version, file => skipped(from.folder.pathOf(file)))
      val isWhole = path.headOption.exists(_.kind.isFull)
      if (!isWhole) from.earlier.foreach { case (other, its) => readEarlier(other, its, from, taken) }
      id = None
      deltas =
        if (isWhole || from.earlier.isEmpty) path.count(_.kind == StateFileKind.Delta) else StateLoader.Ripe
      path.foreach(read(from.folder, _, taken))
    }

    /** Reads what a partition began with from one of the partitions there were. */
    private def readEarlier(
        other: PartitionFiles,
        version: StateVersion,
        into: PartitionFiles,
        further: TakenKeys
    ): Unit = {
      val before = if (state == null) Some(0L) else entries
      if (state != null) state.backend.restoresOther()
      val isAlone = into.earlier.sizeIs == 1 && (further == null || further.isAlone)
      val source = other.folder.path.toString
      val mine = new TakenKeys(keys, placeOf(other), placeOf(into), source, isAlone, further)
      read(other, version, mine)
      tables = Map.empty
      entries = for (all <- before; its <- entries if mine.isAll) yield all + its
    }

    private def placeOf(files: PartitionFiles) = MovedKeys.Place(files.number, files.layout.partitions)

    private def read(folder: StateFolder, file: StateFile, taken: TakenKeys): Unit = {
      snapshot = Option.when(file.kind.isFull)(folder.pathOf(file))
      if (file.kind == StateFileKind.Database) noted(readDatabase(folder, file, taken))
      else {
        val header = restore(folder, file, if (taken == null) null else taken.test)
        if (file.kind == StateFileKind.Delta && header.base != id) throw replaced(folder, file, header)
        noted(header)
      }
      snapshot = None
    }

    private def readDatabase(folder: StateFolder, file: StateFile, taken: TakenKeys) = {
      val fits = taken == null || taken.isAll || taken.isAlone
      val first = if (state == null && fits) adopt else (_: LocalDatabase) => None
      val opened = new DatabaseReader(folder, () => result, first).read(file, taken)
      state = opened.state
      tables = opened.tables
      snapshotBytes = opened.bytes
      opened.header
    }

    private def noted(header: StateFileFormat.Header): Unit = {
      id = Some(header.id)
      entries = Some(header.entries)
    }

    /** Changes of list elements go by their numbers, which another attempt may have assigned differently. */
    private def replaced(folder: StateFolder, file: StateFile, header: StateFileFormat.Header) =
      new StateRestoreException(
        "STATE_FILE_REPLACED",
        s"${folder.pathOf(file)} goes on from the state that attempt ${header.base.getOrElse("none")} of a " +
          "task left, but " +
          s"the file before it is of attempt ${id.getOrElse("none")}: it was written again afterwards. " +
          "Restore the " +
          "checkpoint from a backup, or start the query with a new one"
      )

    private def result: PartitionState = {
      if (state == null) state = empty()
      state
    }

    private def restore(folder: StateFolder, file: StateFile, keeps: UnsafeRow => Boolean) =
      folder.read(file) { in =>
        val source = folder.pathOf(file).toString
        val reader = new StateFileFormat.Reader(in, source)
        reader.nextSection(result.backend.restore(_, source, keeps))
        reader.nextSection(result.timers.restore(_, source, keeps))
        reader.checkEnd()
        if (file.kind.isFull) snapshotBytes = reader.bytes else logBytes += reader.bytes
        reader.header
      }

    def versioned(number: Long): VersionedState = {
      entries.foreach(result.backend.assumeEntries)
      val loaded = new VersionedState(result, StateVersion(number, id), deltas, tables)
      loaded.snapshotBytes = snapshotBytes
      loaded.logBytes = logBytes
      loaded
    }

    def close(): Unit = if (state != null) state.close()
  }
}

private object StateLoader {
  val log = LoggerFactory.getLogger(classOf[StateLoader])

  /** True if a file is gone, or has other content than was written. */
  def isDamage(problem: Exception): Boolean = problem match {
    case _: StateException | _: EOFException | _: UTFDataFormatException | _: ChecksumException => true
    case other => other.getClass.getName == LostBlock
  }

  /** What the client of HDFS throws where no replica of a block is left. Not every cluster has the client. */
  private final val LostBlock = "org.apache.hadoop.hdfs.BlockMissingException"

  /** So many deltas that a snapshot is due: until there is one, files of other partitions are needed. */
  final val Ripe = Int.MaxValue / 2
}
