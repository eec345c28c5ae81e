package io.pillarbox.spark.keyed

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.spark.state.{InitialColumn, StateStorage, StorageKind}
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * The options of one keyed operator, as the Python API sends them.
 *
 * @param form
 *   how the function is called: "row", "batch" (Python), "jvm" (a class) or "scan" (SQL expressions)
 * @param by
 *   the key columns
 * @param returns
 *   the columns of the rows that go out; a scan finds them itself
 * @param timestamp
 *   the column with the event time; without one, the column with the watermark
 * @param orderBy
 *   sorts the rows of a key within a batch by these columns; empty for the order of arrival
 * @param timeSorted
 *   rows wait for the watermark and run in time order
 * @param inputs
 *   the columns that the function is given besides key and timestamp; empty for all
 * @param tags
 *   the side outputs; with any, `returns` has the column of the tag, those of the main output, and a struct for each
 * @param initial
 *   the states that the query starts with
 * @param json
 *   the very text this was read from
 */
final case class KeyedSpec(
    name: String,
    form: String,
    className: Option[String],
    options: Map[String, String],
    by: Seq[String],
    returns: StructType,
    timestamp: Option[String],
    backend: StorageKind,
    timers: StorageKind,
    orderBy: Seq[String],
    timeSorted: Boolean,
    inputs: Seq[String],
    tags: Seq[String],
    initial: Seq[InitialColumn],
    json: String
) {

  /** What messages call it. */
  def operator: String = KeyedErrors.operator(name)

  def storage: StateStorage = StateStorage(backend, timers)

  /** The columns of the rows that go out: those of one output are null in rows of the others. */
  def output: StructType =
    if (tags.isEmpty) returns else StructType(returns.head +: returns.tail.map(_.copy(nullable = true)))

  /** What `explain()` shows. */
  def summary: Seq[String] = Seq(
    Some(name),
    Some(s"form=$form"),
    className,
    Some(s"by=${by.mkString("[", ", ", "]")}"),
    timestamp.map(column => s"timestamp=$column"),
    Some(s"backend=${backend.name}"),
    Some(s"timers=${timers.name}"),
    Option.when(orderBy.nonEmpty)(s"order_by=${orderBy.mkString("[", ", ", "]")}"),
    Option.when(timeSorted)("time_sorted=true")
  ).flatten
}

object KeyedSpec {
  private val mapper = new ObjectMapper

  /** @throws IllegalArgumentException if a field is missing or has no meaning */
  def fromJson(json: String): KeyedSpec = {
    val node = mapper.readTree(json)
    val backend = StorageKind.of("backend", text(node, "backend").getOrElse("rocksdb"))
    KeyedSpec(
      name = required(node, "name"),
      form = required(node, "form"),
      className = text(node, "class_name"),
      options = child(node, "options").fold(Map.empty[String, String])(stringMap),
      by = strings(node, "by"),
      returns = child(node, "returns").fold(new StructType)(schemaOf),
      timestamp = text(node, "timestamp"),
      backend = backend,
      timers = text(node, "timers").fold(backend)(StorageKind.of("timers", _)),
      orderBy = strings(node, "order_by"),
      timeSorted = node.path("time_sorted").asBoolean(false),
      inputs = strings(node, "inputs"),
      tags = strings(node, "tags"),
      initial = child(node, "initial").fold(Seq.empty[InitialColumn])(initialColumns),
      json = json
    )
  }

  private def initialColumns(node: JsonNode): Seq[InitialColumn] = node.elements.asScala.map { column =>
    InitialColumn(required(column, "state"), column.path("entry").asBoolean)
  }.toSeq

  /** A schema is sent as text, or as JSON within the JSON. */
  private def schemaOf(node: JsonNode): StructType =
    DataType.fromJson(if (node.isTextual) node.asText else node.toString).asInstanceOf[StructType]

  private[keyed] def child(node: JsonNode, name: String): Option[JsonNode] =
    Option(node.get(name)).filterNot(_.isNull)

  private[keyed] def text(node: JsonNode, name: String): Option[String] = child(node, name).map(_.asText)

  private[keyed] def required(node: JsonNode, name: String): String =
    text(node, name).getOrElse(throw new IllegalArgumentException(s"The keyed operator has no $name"))

  private[keyed] def strings(node: JsonNode, name: String): Seq[String] =
    child(node, name).fold(Seq.empty[String])(_.elements.asScala.map(_.asText).toSeq)

  private def stringMap(node: JsonNode): Map[String, String] =
    node.properties.asScala.map(entry => entry.getKey -> entry.getValue.asText).toMap
}
