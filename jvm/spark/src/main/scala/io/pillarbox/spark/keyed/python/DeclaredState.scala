package io.pillarbox.spark.keyed.python

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.spark.state.UnsafeRowSerializer
import io.pillarbox.state.StateTtlConfig._
import io.pillarbox.state._
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * A state that the Python function declared when it was opened.
 *
 * @param kind
 *   value, list, map, reducing or aggregating; the worker keeps the latter two as values
 * @param valueType
 *   of the value, element or accumulator
 * @param keyType
 *   of a map's keys, else null
 */
final private case class DeclaredState(
    name: String,
    kind: String,
    valueType: StructType,
    keyType: StructType,
    ttl: Option[StateTtlConfig]
) {
  private def values = new UnsafeRowSerializer(valueType)

  /** The worker renews by writing; only lists leave renewal by reading to the backend, which does it at once for all. */
  private def ttlOfEntries = ttl.map(_.copy(updateType = OnCreateAndWrite))

  def valueDescriptor: ValueStateDescriptor[UnsafeRow] = ValueStateDescriptor(name, values, ttlOfEntries)

  def listDescriptor: ListStateDescriptor[UnsafeRow] = ListStateDescriptor(name, values, ttl)

  def mapDescriptor: MapStateDescriptor[UnsafeRow, UnsafeRow] =
    MapStateDescriptor(name, new UnsafeRowSerializer(keyType), values, ttlOfEntries)
}

private object DeclaredState {
  private val mapper = new ObjectMapper

  /** Reads the worker's READY. */
  def fromReady(json: String): Seq[DeclaredState] =
    mapper.readTree(json).path("states").elements.asScala.map(one).toSeq

  private def one(node: JsonNode): DeclaredState = DeclaredState(
    node.path("name").asText,
    node.path("kind").asText,
    struct(node.path("type")),
    if (node.path("key_type").isNull) null else struct(node.path("key_type")),
    Option(node.get("ttl")).filterNot(_.isNull).map(ttl)
  )

  private def struct(node: JsonNode): StructType =
    DataType.fromJson(if (node.isTextual) node.asText else node.toString).asInstanceOf[StructType]

  private def ttl(node: JsonNode): StateTtlConfig = StateTtlConfig(
    node.path("ms").asLong,
    node.path("update").asText match {
      case "on_read_and_write" => OnReadAndWrite
      case _ => OnCreateAndWrite
    },
    NeverReturnExpired,
    if (node.path("time").asText == "event") EventTime else ProcessingTime
  )
}
