package io.pillarbox.spark.checkpoint

import scala.annotation.tailrec
import scala.collection.mutable

import io.pillarbox.state.StateException

/**
 * Finds the files that lead to a version, and those that no version needs any more.
 *
 * Each attempt of a task writes files of its own, and each delta has the id of the one that it goes on from.
 *
 * @param since
 *   the version that the first delta goes on from: files up to it are those of other partitions, see
 *   [[StateLayout]]
 */
private[pillarbox] final class StateHistory(folder: StateFolder, since: Long = 0) {

  /** The files that are there, by version: a log can have thousands. */
  private final class Files(all: Seq[StateFile]) {
    private val byVersion = all.groupBy(_.version)

    def of(version: Long): Seq[StateFile] = byVersion.getOrElse(version, Nil)

    def apply(file: StateFile): Boolean = of(file.version).contains(file)
  }

  /**
   * Returns the files to read for `version`, in order: at most one snapshot, then deltas.
   *
   * @param isSkipped true for snapshots that turned out to be damaged
   * @throws io.pillarbox.state.StateRestoreException if a file is missing
   */
  def pathTo(version: StateVersion, isSkipped: StateFile => Boolean = _ => false): Seq[StateFile] = {
    val there = new Files(folder.list().filterNot(isSkipped))
    val path = mutable.ArrayDeque.empty[StateFile]
    var at = accepted(version, there)
    while (at.number > since) {
      val delta = deltaOf(at)
      snapshotOf(at, there) match {
        case Some(snapshot) =>
          path.prepend(snapshot)
          at = StateVersion(since, None)
        case None if there(delta) =>
          path.prepend(delta)
          at = before(at, there)
        case None => throw folder.missing(delta.name, s"State of version $version")
      }
    }
    path.toSeq
  }

  /**
   * Returns `version` with the id in the name of its file.
   *
   * Where Spark does not tell it, that is the one that the newest attempt at the next version went on from,
   * or, before there is any, that of the newest attempt. So a micro-batch that is run again starts from the
   * same state as before.
   */
  def accepted(version: StateVersion): StateVersion =
    if (version == StateVersion.Empty) version else accepted(version, new Files(folder.list()))

  /**
   * Returns the header of a version's delta.
   *
   * @throws io.pillarbox.state.StateRestoreException if the file is missing or damaged
   */
  def header(version: StateVersion): StateFileFormat.Header = header(deltaOf(accepted(version)))

  /** Returns the delta of a version, which need not exist. */
  def deltaOf(version: StateVersion): StateFile =
    StateFile(StateFileKind.Delta, version.number, version.id)

  /**
   * Deletes the files that no version from `oldest` on needs that led to `current`: all before the snapshot
   * that `oldest` is loaded from. Snapshots of attempts that lost do not count.
   */
  def deleteBefore(oldest: Long, current: StateVersion, tables: SharedTables): Unit =
    firstFor(current, oldest).filter(_.kind.isFull).foreach { first =>
      delete(version => version > since && version < first.version, first.version, tables)
    }

  /** True if what is loaded for `oldest`, which led to `current`, begins with a snapshot. */
  def startsWithSnapshot(current: StateVersion, oldest: Long): Boolean =
    firstFor(current, oldest).exists(_.kind.isFull)

  /** Deletes all files up to a version. */
  def deleteUpTo(version: Long, tables: SharedTables): Unit = delete(_ <= version, version + 1, tables)

  private def firstFor(current: StateVersion, oldest: Long): Option[StateFile] =
    if (oldest <= since) None
    else ancestor(current, oldest, new Files(folder.list())).flatMap(pathTo(_).headOption)

  /** Deletes files of some versions, and the tables that were written before a version for nobody else. */
  private def delete(isOld: Long => Boolean, below: Long, tables: SharedTables): Unit = {
    val (old, kept) = folder.list().partition(file => isOld(file.version))
    old.foreach(folder.delete)
    folder.deleteUnfinished(StateFile.parse(_).exists(file => isOld(file.version)))
    tables.deleteUnused(below, kept.filter(_.kind == StateFileKind.Database).flatMap(tablesOf).toSet)
  }

  /** Returns None if it is already deleted: fewer versions were retained before, or the query went back. */
  @tailrec
  private def ancestor(version: StateVersion, number: Long, there: Files): Option[StateVersion] =
    if (idsOf(math.max(version.number, number), there).isEmpty) None
    else if (version.number <= number) Some(version)
    else ancestor(before(version, there), number, there)

  private def accepted(version: StateVersion, there: Files): StateVersion =
    if (version.number == 0) version
    else
      version.id match {
        case Some(_) => version
        case None =>
          version.copy(id = baseOfNext(version.number, there).orElse(newest(version.number, there)))
      }

  private def newest(number: Long, there: Files): Option[String] =
    idsOf(number, there).maxOption(Attempt.oldestFirst).flatten

  /**
   * Returns None if there is no attempt at the next version, or none that tells. An attempt of a run before
   * the one that wrote `number` last went on from a state behind which the query was taken back since.
   */
  private def baseOfNext(number: Long, there: Files): Option[String] = {
    val run = Attempt.runOf(newest(number, there))
    val attempts = there.of(number + 1).filter { file =>
      file.kind.hasBase && Attempt.runOf(file.id) >= run
    }
    for {
      file <- attempts.maxByOption(_.id)(Attempt.oldestFirst)
      base <- baseOf(file)
      if idsOf(number, there).contains(Some(base))
    } yield base
  }

  private def baseOf(file: StateFile): Option[String] =
    try header(file).base
    catch { case _: StateException => None }

  private def idsOf(number: Long, there: Files): Set[Option[String]] =
    there.of(number).map(_.id).toSet

  /** Returns the version that a version's delta was made from. It is read only where attempts differ. */
  private def before(version: StateVersion, there: Files): StateVersion = {
    val number = version.number - 1
    val ids = idsOf(number, there)
    if (number == since) StateVersion(since, None)
    else StateVersion(number, if (ids.size == 1) ids.head else header(deltaOf(version)).base)
  }

  private def snapshotOf(version: StateVersion, there: Files): Option[StateFile] =
    StateFileKind.full.map(StateFile(_, version.number, version.id)).find(there(_))

  private def tablesOf(file: StateFile): Seq[String] = {
    val source = folder.pathOf(file).toString
    var found = Seq.empty[String]
    folder.read(file)(
      StateFileFormat.read(_, source)(in =>
        found = DatabaseManifest.readFrom(in, source).tables.map(_.shared)
      )(_ => ())
    )
    found
  }

  private def header(file: StateFile): StateFileFormat.Header =
    folder.read(file)(StateFileFormat.readHeader(_, folder.pathOf(file).toString))
}
