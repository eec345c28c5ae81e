package io.pillarbox.spark.async

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.metered.journal.JournalOperator
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types._

/**
 * Describes the operator whose answers a journal keeps: its name, the version of its answers, and the columns
 * of the key and of the answer, as Spark writes schemas in JSON.
 *
 * An answer counts only for an operator of the very same description, so it needs no other check against
 * `returns` and `explode` when it is read.
 */
private[async] object JournalOperators {
  private val mapper = new ObjectMapper

  def of(task: AsyncIOTaskSpec): JournalOperator = of(task.spec, task.columns.keySchema)

  def of(spec: AsyncIOSpec, key: StructType): JournalOperator =
    of(spec.name, spec.journalVersion, key, spec.returns, spec.explode)

  /** The operator whose answers are the tickets of calls, whatever the calls return. */
  def ofTickets(task: AsyncIOTaskSpec): JournalOperator = {
    val name = s"${task.spec.name} tickets"
    of(
      name,
      task.spec.journalVersion,
      task.columns.keySchema,
      TaskTickets.Layout,
      explode = false
    )
  }

  private def of(
      name: String,
      version: Option[String],
      key: StructType,
      returns: StructType,
      explode: Boolean
  ): JournalOperator = {
    val description = mapper.createObjectNode
    description.put("name", name).put("version", version.orNull)
    description.set[JsonNode]("key", tree(SparkAdapter.asNullable(key)))
    description.set[JsonNode]("returns", tree(returns))
    description.put("explode", explode)
    new JournalOperator(mapper.writeValueAsString(description))
  }

  private def tree(schema: StructType) = mapper.readTree(bare(schema).json)

  /** Returns the type without comments and other metadata, which do not change values. */
  private def bare(dataType: DataType): DataType = dataType match {
    case struct: StructType =>
      StructType(struct.map(field => StructField(field.name, bare(field.dataType), field.nullable)))
    case array: ArrayType => array.copy(elementType = bare(array.elementType))
    case map: MapType => map.copy(keyType = bare(map.keyType), valueType = bare(map.valueType))
    case other => other
  }
}

/** What a journal tells of an operator. */
private[spark] final case class OperatorColumns(
    name: String,
    version: Option[String],
    key: StructType,
    returns: StructType
) {

  /** Its name and version as messages have them. */
  def shown: String = name + version.fold("")(text => s" (version $text)")
}

private[spark] object OperatorColumns {
  private val mapper = new ObjectMapper

  /** @param description as [[JournalOperators]] writes it */
  def parse(description: String): OperatorColumns = {
    val json = mapper.readTree(description)
    def struct(name: String) = DataType.fromJson(json.get(name).toString).asInstanceOf[StructType]
    OperatorColumns(
      json.get("name").asText,
      Option(json.get("version").textValue),
      struct("key"),
      struct("returns")
    )
  }
}
