package io.pillarbox.spark.checkpoint

import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.spark.base.FailureReport
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types.{DataType, StructField, StructType}

/**
 * What a checkpoint says of the operator that wrote it, so that another one is refused before it touches any
 * data. The types of states are beside the state itself.
 *
 * @param operator the form of the function: state of SQL expressions is not state of a function, and only
 *   functions that are called row by row have timers
 * @param keyType
 *   the types of the key columns as DDL; their names don't matter
 * @param format
 *   Spark's format of checkpoints of state, which decides how files are named
 * @param name
 *   of the operator when the checkpoint began, for readers; not compared
 * @param keys
 *   the key columns as they were then; not compared
 * @param isCoarse
 *   whether it is of a release that did not tell the column form from the row form
 * @param layout
 *   how files are named; not compared, but a newer one is refused
 */
private[pillarbox] final case class CheckpointNote(
    operator: String,
    keyType: String,
    timeSorted: Boolean,
    partitions: Int,
    format: Int,
    name: String,
    keys: StructType,
    isCoarse: Boolean = false,
    layout: Int = CheckpointNote.PlainLayout
) {

  /**
   * Compares with what is there, or writes it down.
   *
   * @throws IllegalStateException
   *   if something else is there
   */
  def checkAndWrite(folder: Path, conf: Configuration): Unit = {
    val files = CheckpointNote.filesIn(folder, conf)
    CheckpointNote.find(folder, conf) match {
      case Some(found) =>
        check(folder, found)
        // From now on earlier releases look for files that are not there: they are to refuse the checkpoint.
        if (found.layout < layout) copy(name = found.name, keys = found.keys).writeTo(files)
      case None => writeTo(files)
    }
  }

  private def writeTo(files: StateFiles): Unit =
    files.write(CheckpointNote.File)(_.write(json.getBytes(UTF_8))): Unit

  private def check(folder: Path, found: CheckpointNote): Unit = {
    def same(what: String, there: Any, now: Any): Unit =
      if (there != now) throw CheckpointNote.mismatch(name, folder, what, there.toString, now.toString)
    same("the form", found.operator, if (found.isCoarse && operator == "arrow") "row" else operator)
    same("keys of type", found.keyType, keyType)
    same("time_sorted", found.timeSorted, timeSorted)
    same("the number of partitions", found.partitions, partitions)
    same(CheckpointNote.FormatVersion, found.format, format)
  }

  private def json: String = CheckpointNote.mapper.createObjectNode
    .put("version", layout)
    .put("operator", operator)
    .put("keys", keyType)
    .put("time_sorted", timeSorted)
    .put("partitions", partitions)
    .put("format", format)
    .put("name", name)
    .put("key_columns", keys.json)
    .toString
}

private[pillarbox] object CheckpointNote {
  private[checkpoint] final val Folder = "_pillarbox"
  private final val File = "operator.json"

  /** Names with Spark's ids under checkpoint format 2; without any under format 1, in earlier releases. */
  private final val PlainLayout = 1

  /** Under format 1: names with ids of attempts. */
  private final val AttemptLayout = 2

  /** Spark's setting of the format. */
  private[pillarbox] final val FormatVersion = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val mapper = new ObjectMapper

  /** @param withIds whether Spark names the attempts that write files: checkpoint format 2 */
  def of(
      name: String,
      operator: String,
      timeSorted: Boolean,
      keys: Seq[Attribute],
      partitions: Int,
      withIds: Boolean
  ): CheckpointNote = CheckpointNote(
    operator,
    keys.map(_.dataType.sql).mkString(", "),
    timeSorted,
    partitions,
    formatOf(withIds),
    name,
    StructType(keys.map(key => StructField(key.name, key.dataType))),
    layout = if (withIds) PlainLayout else AttemptLayout
  )

  /** What is written down in an operator's folder of state; None if it is no folder of ours. */
  def find(folder: Path, conf: Configuration): Option[CheckpointNote] = {
    val files = filesIn(folder, conf)
    if (!files.exists(File)) None
    else {
      val in = files.open(File)
      try Some(parse(mapper.readTree(in.readAllBytes()), folder, conf))
      finally in.close()
    }
  }

  private def filesIn(folder: Path, conf: Configuration): StateFiles =
    StateFiles.in(new Path(folder, Folder), conf)

  private def formatOf(withIds: Boolean): Int = if (withIds) 2 else 1

  private def parse(node: JsonNode, folder: Path, conf: Configuration): CheckpointNote = {
    val version = node.path("version").asInt
    if (version > AttemptLayout)
      throw mismatch(
        node.path("name").asText,
        folder,
        "format version",
        version.toString,
        s"up to $AttemptLayout"
      )
    CheckpointNote(
      node.path("operator").asText,
      node.path("keys").asText,
      node.path("time_sorted").asBoolean,
      node.path("partitions").asInt,
      if (node.has("format")) node.path("format").asInt else formatIn(folder, conf),
      node.path("name").asText,
      DataType.fromJson(node.path("key_columns").asText).asInstanceOf[StructType],
      isCoarse = !node.has("format"),
      layout = version
    )
  }

  /** Of a checkpoint whose note does not tell. */
  private def formatIn(folder: Path, conf: Configuration): Int =
    formatOf(new StateFolder(new Path(folder, "0"), conf).list().flatMap(_.id).exists(Attempt.of(_).isEmpty))

  private def mismatch(
      name: String,
      folder: Path,
      what: String,
      found: String,
      wanted: String
  ): IllegalStateException = {
    val parameters = Seq("path" -> folder, "what" -> what, "found" -> found, "wanted" -> wanted)
    val report = FailureReport.of("KEYED_CHECKPOINT_MISMATCH", FailureReport.keyed(name), parameters: _*)
    new IllegalStateException(report.layout)
  }
}
