package io.pillarbox.spark.async.carry

import java.nio.charset.StandardCharsets.UTF_8

import com.fasterxml.jackson.databind.ObjectMapper
import io.pillarbox.spark.base.FailureReport
import io.pillarbox.spark.checkpoint.StateFolder
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * What a checkpoint says of an operator with carry-over, so that another one is refused before it touches any
 * data.
 *
 * @param operator
 *   as messages call it; not compared
 * @param format
 *   Spark's format of checkpoints of state
 * @param input
 *   the columns of rows in flight
 * @param answers
 *   the columns that the operator adds
 * @param version
 *   of the note and of what it stands for: a newer one is refused
 */
private[pillarbox] final case class CarryNote(
    operator: String,
    slots: Int,
    format: Int,
    input: StructType,
    answers: StructType,
    version: Int = CarryNote.Version
) {

  /**
   * Compares with what is there, or writes it down.
   *
   * @throws IllegalStateException
   *   if something else is there
   */
  def checkAndWrite(folder: Path, conf: Configuration): Unit = CarryNote.find(folder, conf) match {
    case Some(found) => check(found)
    case None =>
      val text = CarryNote.mapper.createObjectNode
        .put("version", CarryNote.Version)
        .put("operator", operator)
        .put("slots", slots)
        .put("format", format)
        .put("input", input.json)
        .put("answers", answers.json)
        .toString
      CarryNote.filesIn(folder, conf).writeNamed(CarryNote.File)(_.write(text.getBytes(UTF_8))): Unit
  }

  private def check(found: CarryNote): Unit = {
    same("format version", math.max(found.version, CarryNote.Version), CarryNote.Version)
    same("slots", found.slots, slots)
    same("spark.sql.streaming.stateStore.checkpointFormatVersion", found.format, format)
    same("the input columns", shape(found.input), shape(input))
    same("returns", shape(found.answers), shape(answers))
  }

  private def same(option: String, there: Any, now: Any): Unit = if (there != now)
    throw CarryErrors.refused(
      "CARRY_OVER_MISMATCH",
      operator,
      "option" -> option,
      "found" -> there.toString,
      "wanted" -> now.toString
    )

  /** Nullability may change. */
  private def shape(schema: StructType): String = SparkAdapter.asNullable(schema).toDDL
}

private[pillarbox] object CarryNote {
  private final val Folder = "_pillarbox"
  private final val File = "async_io.json"

  /** 2: under checkpoint format 1 too, files have the ids of attempts in their names. */
  private final val Version = 2
  private val mapper = new ObjectMapper

  /** What is written down in an operator's folder of state; None if it is no operator with carry-over. */
  def find(folder: Path, conf: Configuration): Option[CarryNote] = {
    val files = filesIn(folder, conf)
    if (!files.listNames().contains(File)) None
    else {
      val node = files.readNamed(File, "carry_over")(in => mapper.readTree(in.readAllBytes()))
      Some(
        CarryNote(
          node.path("operator").asText,
          node.path("slots").asInt,
          node.path("format").asInt,
          schema(node.path("input").asText),
          schema(node.path("answers").asText),
          node.path("version").asInt
        )
      )
    }
  }

  /** Where an operator's notes are. */
  def filesIn(folder: Path, conf: Configuration): StateFolder =
    new StateFolder(new Path(folder, Folder), conf)

  private def schema(json: String) = DataType.fromJson(json).asInstanceOf[StructType]
}

/** Refusals, as errors that Python shows by their names. */
private[pillarbox] object CarryErrors {
  def refused(name: String, operator: String, parameters: (String, Any)*): IllegalStateException =
    new IllegalStateException(FailureReport.of(name, operator, parameters: _*).layout)
}
