package io.pillarbox.spark.keyed.scan

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import io.pillarbox.spark.keyed.KeyedSpec
import io.pillarbox.state.StateTtlConfig

/** A column of the state of a scan: what it is before a key's first row, and what each row makes of it, as SQL. */
final case class ScanColumn(name: String, init: String, update: String)

/**
 * What a scan does to each row.
 *
 * @param emit
 *   the columns of the rows that it puts out, over row and new state; empty for all of both
 */
final case class ScanSpec(state: Seq[ScanColumn], emit: Seq[String], ttl: Option[StateTtlConfig])

object ScanSpec {
  private val mapper = new ObjectMapper

  /** Reads `"state": [{"name", "init", "update"}], "emit": [...], "ttl": {...}` of a spec. */
  def fromJson(json: String): ScanSpec = {
    val node = mapper.readTree(json)
    val columns = node.path("state").elements.asScala.map(columnOf).toSeq
    if (columns.isEmpty) throw new IllegalArgumentException("A scan needs a state of one column at least")
    ScanSpec(columns, KeyedSpec.strings(node, "emit"), KeyedSpec.child(node, "ttl").map(TtlJson.read))
  }

  private def columnOf(node: JsonNode): ScanColumn = ScanColumn(
    KeyedSpec.required(node, "name"),
    KeyedSpec.required(node, "init"),
    KeyedSpec.required(node, "update")
  )
}

/** A TTL as the Python API sends it: `{"ms", "update", "visibility", "time"}`. */
object TtlJson {

  /** @throws IllegalArgumentException if a field has no meaning */
  def read(node: JsonNode): StateTtlConfig = StateTtlConfig(
    node.path("ms").asLong,
    choice(
      node,
      "update",
      "on_create_and_write" -> StateTtlConfig.OnCreateAndWrite,
      "on_read_and_write" -> StateTtlConfig.OnReadAndWrite,
      "disabled" -> StateTtlConfig.Disabled
    ),
    choice(
      node,
      "visibility",
      "never_return_expired" -> StateTtlConfig.NeverReturnExpired,
      "return_expired_if_not_cleaned_up" -> StateTtlConfig.ReturnExpiredIfNotCleanedUp
    ),
    choice(
      node,
      "time",
      "processing" -> StateTtlConfig.ProcessingTime,
      "event" -> StateTtlConfig.EventTime
    )
  )

  /** The first one is the default. */
  private def choice[A](node: JsonNode, field: String, options: (String, A)*): A = {
    val name = KeyedSpec.text(node, field).getOrElse(options.head._1)
    options.toMap.getOrElse(
      name,
      throw new IllegalArgumentException(
        s"$field of a TTL is one of ${options.map(_._1).mkString(", ")}, found \"$name\""
      )
    )
  }
}
