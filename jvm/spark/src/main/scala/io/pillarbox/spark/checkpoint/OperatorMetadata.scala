package io.pillarbox.spark.checkpoint

import java.nio.charset.StandardCharsets.UTF_8

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.spark.base.FailureReport
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.pillarbox.{LosslessTypes, SparkAdapter}
import org.apache.spark.sql.types.{DataType, Metadata, StructType}

/**
 * The checkpoint's description of the operator that wrote it, so that another one is refused before it
 * touches any data. The types of states are stored with the state itself.
 *
 * The name may always change. Slots and columns may change while nothing is stored, and a column may become
 * nullable. Partitions of a keyed function may change with any version: the metadata then says where its state is.
 * The rest never changes. The metadata is written anew when more than the name has changed.
 *
 * @param form
 *   the form of a keyed function, since state of SQL expressions is not state of a function; or that of async
 *   I/O with carry-over
 * @param name
 *   the name of the operator when the metadata was written
 * @param partitions
 *   the number of partitions of the state, or of slots
 * @param format
 *   Spark's format of checkpoints of state, which decides how files are named
 * @param columns
 *   the columns that state was written with, by their role
 * @param callScope
 *   the prefix of the ids of carried calls
 * @param since
 *   the version with which `partitions` and `columns` began: a partition without a file of it was empty
 * @param before
 *   the metadata until then, for a query that is taken back behind the change
 * @param bases
 *   the ids in the names of the files of version `since`, by partition of `before`, if state of that version is
 *   stored, in other partitions than these
 * @param until
 *   the version with which the query went on without the operator, which had nothing stored then
 * @param leaving
 *   which of the input columns of carried calls leave with their values, in order of the versions
 */
private[pillarbox] final case class OperatorMetadata(
    form: String,
    name: String,
    partitions: Int,
    format: Int,
    columns: Map[String, StructType],
    timeSorted: Boolean = false,
    callScope: String = "",
    since: Long = 0,
    before: Option[OperatorMetadata] = None,
    bases: Option[Seq[Option[String]]] = None,
    until: Option[Long] = None,
    leaving: Seq[OperatorMetadata.Leaving] = Nil
) {
  import OperatorMetadata._

  /** True for async I/O, false for a keyed function. */
  def carriesCalls: Boolean = form == AsyncIO

  /** The operator as messages name it. */
  def operator: String = if (carriesCalls) s"async_io($name)" else FailureReport.keyed(name)

  def keys: StructType = columns(Keys)

  /** The metadata of an earlier version. */
  def at(version: Long): OperatorMetadata =
    before.filter(_ => version < since || (version == since && bases.isDefined)).fold(this)(_.at(version))

  /** True if a micro-batch ran without the operator before a version. For the metadata of that version. */
  def isGone(version: Long): Boolean = until.exists(_ < version)

  /**
   * Notes that the query goes on from a version without the operator, which has nothing stored in it. For the
   * metadata of that version.
   */
  def writeGone(folder: Path, conf: Configuration, version: Long): Unit =
    write(copy(until = Some(version)), filesIn(folder, conf))

  /** The ids in the names of a version's files, if other partitions have gone on from it. */
  def basesOf(version: Long): Option[Seq[Option[String]]] =
    bases.filter(_ => version == since).orElse(before.flatMap(_.basesOf(version)))

  /** The partitions of a keyed function's state. */
  def layout: StateLayout = StateLayout(
    partitions,
    for (ids <- bases; metadata <- before) yield StateLayout.Earlier(since, metadata.layout, ids.toIndexedSeq)
  )

  /**
   * Compares the metadata with the stored one, and writes it if it is new.
   *
   * @param version
   *   the version that the operator is about to go on from
   * @param most
   *   the most partitions that there may be
   * @param basesOf
   *   returns the ids in the names of the files of that version, by the partitions of metadata; null if stored
   *   state can't move to other partitions
   * @param isEmpty
   *   true if nothing is stored in that version of an operator with the given metadata
   * @return
   *   the stored metadata
   * @throws IllegalStateException
   *   if another operator's metadata is stored
   */
  def checkAndWrite(
      folder: Path,
      conf: Configuration,
      version: Long,
      most: Int = Int.MaxValue,
      basesOf: OperatorMetadata => Seq[Option[String]] = null
  )(isEmpty: OperatorMetadata => Boolean): OperatorMetadata = {
    val found = find(folder, conf)
    found
      .flatMap(changedForGood(_, most).headOption)
      .foreach(change => throw mismatch("CHECKPOINT_MISMATCH", folder, change))
    // A query may get calls that are carried over with any version.
    def first = if (carriesCalls) copy(since = version) else this
    val now = found.fold(first)(metadata => goOn(folder, metadata, version, basesOf)(isEmpty))
    // The metadata is away for a moment if rename does not replace a file.
    if (!found.exists(_.copy(name = name) == now)) write(now, filesIn(folder, conf))
    now
  }

  private def goOn(
      folder: Path,
      latest: OperatorMetadata,
      version: Long,
      basesOf: OperatorMetadata => Seq[Option[String]]
  )(isEmpty: OperatorMetadata => Boolean): OperatorMetadata = {
    val found = latest.at(version)
    // A run that began the same change, and died, has said which files it reads. They stay the ones.
    val begun = latest.bases.filter(_ => latest.since == version)
    val changed = changedPartitions(found) ++ changedColumns(found)
    val more = if (changed.isEmpty) moreThatLeave(found, version) else Nil
    if (found.isGone(version))
      copy(callScope = s"${latest.callScope}-$version", since = version, before = Some(found))
    else if (changed.isEmpty && more.isEmpty && begun.isEmpty)
      copy(
        callScope = found.callScope,
        since = found.since,
        before = found.before,
        bases = found.bases,
        leaving = leavingAfter(found, version)
      )
    else if (basesOf != null && changedColumns(found).isEmpty && !isEmpty(found))
      copy(since = version, before = Some(found), bases = begun.orElse(Some(basesOf(found))))
    else if (!isEmpty(found)) {
      val condition = if (carriesCalls) "CARRY_OVER_MISMATCH" else "CHECKPOINT_MISMATCH"
      throw mismatch(condition, folder, (changed ++ more).head)
    } else {
      // Elements of a slot that is new may get numbers that others have had.
      val scope = if (partitions == found.partitions) "" else s"-$version"
      val before = if (version == found.since) found.before else Some(found)
      copy(callScope = found.callScope + scope, since = version, before = before)
    }
  }

  /** Rows whose calls are done are stored without the columns that did not leave then. */
  private def moreThatLeave(found: OperatorMetadata, version: Long): Seq[Change] = for {
    before <- found.leaving.filter(_.from < version).lastOption.toSeq
    now <- leaving.lastOption.toSeq
    if !now.columns.forall(before.columns.contains)
  } yield Change("the used columns", found.namesOf(before), namesOf(now))

  private def namesOf(some: Leaving): String =
    some.columns.map(columns(Input).names(_)).mkString("[", ", ", "]")

  /** Runs that began at this version or later have left nothing that counts. */
  private def leavingAfter(found: OperatorMetadata, version: Long): Seq[Leaving] = {
    val earlier = found.leaving.filter(_.from < version)
    if (leaving.map(_.columns) == earlier.lastOption.map(_.columns).toSeq) earlier else earlier ++ leaving
  }

  private def changedForGood(found: OperatorMetadata, most: Int): Seq[Change] =
    Change.of("the form", found.form, form)(_ == _) ++
      Change.of("time_sorted", found.timeSorted, timeSorted)(_ == _) ++
      Change.of(FormatVersion, found.format, format)(_ == _) ++
      Change.of("slots", most, partitions)(_ >= _)

  private def changedPartitions(found: OperatorMetadata): Seq[Change] = {
    val parts = if (carriesCalls) "slots" else "the number of partitions"
    Change.of(parts, found.partitions, partitions)(_ == _)
  }

  private def changedColumns(found: OperatorMetadata): Seq[Change] = columns.toSeq.flatMap {
    case (what, now) =>
      val there = found.columns.getOrElse(what, new StructType)
      if (what == Keys) changedKeys(there, now)
      else if (LosslessTypes.isWider(there, now)) None
      else Some(Change(what, there.toDDL, now.toDDL))
  }

  /** Keys may get other names, but none that another one of them has had. Nulls of fields don't count. */
  private def changedKeys(there: StructType, now: StructType): Seq[Change] = {
    def types(keys: StructType) = keys.map(_.dataType.sql).mkString(", ")
    def names(keys: StructType) = keys.map(_.name).mkString("[", ", ", "]")
    def bare(keys: StructType) = keys.map(key => SparkAdapter.asNullable(key.dataType))
    Change.of("keys of type", types(there), types(now))((_, _) => bare(there) == bare(now)) ++
      Change.of("by", names(there), names(now)) { (_, _) =>
        now.names.zipWithIndex.forall { case (name, at) => Set(-1, at)(there.names.indexOf(name)) }
      }
  }

  private def mismatch(condition: String, folder: Path, change: Change): IllegalStateException =
    refused(
      condition,
      operator,
      "path" -> folder,
      "what" -> change.what,
      "found" -> change.found,
      "wanted" -> change.wanted
    )

  private def json: ObjectNode = {
    val node = mapper.createObjectNode
      .put("version", Version)
      .put("form", form)
      .put("name", name)
      .put("partitions", partitions)
      .put("format", format)
      .put("time_sorted", timeSorted)
      .put("call_scope", callScope)
      .put("since", since)
    val schemas = node.putObject("columns")
    columns.foreach { case (what, schema) => schemas.set[JsonNode](what, mapper.readTree(schema.json)) }
    before.foreach(metadata => node.set[JsonNode]("before", metadata.json))
    until.foreach(node.put("until", _))
    leaving.foreach { some =>
      val array = node.withArray("leaving").addObject().put("from", some.from).putArray("columns")
      some.columns.foreach(array.add(_))
    }
    bases.foreach { ids =>
      val array = node.putArray("bases")
      ids.foreach(id => array.add(id.orNull))
    }
    node
  }
}

private[pillarbox] object OperatorMetadata {

  /** The form of async I/O whose calls are carried over. */
  final val AsyncIO = "async_io"
  private val Forms = Set("row", "arrow", "jvm", "scan", AsyncIO)

  /** The roles of columns as messages name them: the key, rows in flight, and the results of calls. */
  final val Keys = "keys"
  final val Input = "the input columns"
  final val Returns = "returns"

  private[checkpoint] final val Folder = "_pillarbox"
  private final val File = "operator.json"

  /** The version of the metadata and of the stored formats it stands for. Lower ones were never released. */
  private final val Version = 3

  /** Spark's setting of the format. */
  private final val FormatVersion = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val mapper = new ObjectMapper

  /**
   * The columns that leave with their values.
   *
   * @param from the version that the run went on from which began with them: they hold for the versions behind it
   * @param columns their places among the input columns
   */
  final case class Leaving(from: Long, columns: Seq[Int])

  /** @param withIds true if Spark names the attempts that write files: checkpoint format 2 */
  def formatOf(withIds: Boolean): Int = if (withIds) 2 else 1

  /** Drops the columns' comments and other metadata. */
  def columnsOf(schema: StructType): StructType =
    StructType(schema.map(_.copy(metadata = Metadata.empty)))

  /**
   * Returns the metadata in an operator's folder of state; None if the folder is not of this library. Metadata that
   * has not got its name counts where there is no other.
   *
   * @throws IllegalStateException
   *   (CHECKPOINT_FORMAT) if it is of another version
   */
  def find(folder: Path, conf: Configuration): Option[OperatorMetadata] = {
    val files = filesIn(folder, conf)
    if (files.exists(File)) Some(parse(read(files, File), folder))
    else {
      val whole = unfinished(files).flatMap(name => Try(read(files, name)).toOption).filter(_.isObject)
      val newest = whole.map(parse(_, folder)).maxByOption(_.since)
      if (newest.isEmpty && !files.list().forall(StateFiles.unfinished(_).isDefined))
        throw unreadable(folder, "", "before 3")
      newest
    }
  }

  private def write(metadata: OperatorMetadata, files: StateFiles): Unit = {
    files.write(File)(_.write(metadata.json.toString.getBytes(UTF_8)))
    unfinished(files).foreach(files.delete)
  }

  private def unfinished(files: StateFiles): Seq[String] =
    files.list().filter(StateFiles.unfinished(_).contains(File))

  private def read(files: StateFiles, name: String): JsonNode = {
    val in = files.open(name)
    try mapper.readTree(in.readAllBytes())
    finally in.close()
  }

  private def filesIn(folder: Path, conf: Configuration): StateFiles = StateFiles.in(folderIn(folder), conf)

  /** The folder of metadata beside an operator's partitions. */
  def folderIn(folder: Path): Path = new Path(folder, Folder)

  private def parse(node: JsonNode, folder: Path): OperatorMetadata = {
    val (version, form, name) =
      (node.path("version").asInt, node.path("form").asText, node.path("name").asText)
    if (version != Version) throw unreadable(folder, name, version.toString)
    if (!Forms(form)) throw unreadable(folder, name, s"$version with the form '$form'")
    OperatorMetadata(
      form,
      name,
      node.path("partitions").asInt,
      node.path("format").asInt,
      node.path("columns").properties.asScala.map(entry => entry.getKey -> schema(entry.getValue)).toMap,
      node.path("time_sorted").asBoolean,
      node.path("call_scope").asText,
      node.path("since").asLong,
      Option(node.get("before")).map(parse(_, folder)),
      Option(node.get("bases")).map(_.elements.asScala.map(id => Option(id.textValue)).toSeq),
      Option(node.get("until")).map(_.asLong),
      node.path("leaving").elements.asScala.map(parseLeaving).toSeq
    )
  }

  private def parseLeaving(node: JsonNode): Leaving =
    Leaving(node.path("from").asLong, node.path("columns").elements.asScala.map(_.asInt).toSeq)

  private def schema(node: JsonNode): StructType = DataType.fromJson(node.toString).asInstanceOf[StructType]

  private def unreadable(folder: Path, name: String, found: String): IllegalStateException =
    refused("CHECKPOINT_FORMAT", name, "path" -> folder, "found" -> found, "expected" -> Version)

  /** Makes an error that Python shows by its name. */
  def refused(condition: String, operator: String, parameters: (String, Any)*): IllegalStateException =
    new IllegalStateException(FailureReport.of(condition, operator, parameters: _*).errorText)

  private final case class Change(what: String, found: String, wanted: String)

  private object Change {
    def of[A](what: String, found: A, wanted: A)(fits: (A, A) => Boolean): Seq[Change] =
      if (fits(found, wanted)) Nil else Seq(Change(what, found.toString, wanted.toString))
  }
}
