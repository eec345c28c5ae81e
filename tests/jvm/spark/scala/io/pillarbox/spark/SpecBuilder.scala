package io.pillarbox.spark

import java.nio.file.Paths
import java.util.UUID

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.node.ObjectNode
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.types.StructType

/** Operators as the Python API asks for them: a spec as JSON, changed by what a test says. */
object SpecBuilder {
  private val mapper = new ObjectMapper

  /** The specs that the Python API makes where no option is given, by what they are of. */
  private val golden = mapper.readTree(Paths.get("tests", "golden", "specs.json").toFile)

  /** A spec for a function by class name. */
  def json(className: String, returns: String, change: ObjectNode => Unit = _ => ()): String = {
    val spec = mapper.createObjectNode
      .put("name", "test")
      .put("form", "jvm")
      .put("class_name", className)
      .put("ordered", true)
      .put("capacity", 10)
      .put("returns", StructType.fromDDL(returns).json)
      .put("operator_id", UUID.randomUUID.toString)
    change(spec)
    val isColumn = Option(spec.get("on_error")).exists(_.asText == "column")
    if (isColumn && !spec.has("error_column")) spec.put("error_column", "error")
    if (!spec.has("max_waiting"))
      spec.put("max_waiting", if (spec.get("ordered").asBoolean) 10 * spec.get("capacity").asInt else 0)
    mapper.writeValueAsString(completed("async", withFigures(spec)))
  }

  /** Puts the fields that are figures where the Python API has them. */
  private def withFigures(spec: ObjectNode): ObjectNode = {
    val names = golden.get("figures").fieldNames.asScala.filter(spec.has).toSeq
    val figures = mapper.createObjectNode
    names.foreach(name => figures.set[JsonNode](name, spec.remove(name)): Unit)
    spec.set[ObjectNode]("figures", figures)
  }

  /** The spec of a keyed operator, of which some fields are given. */
  def keyed(fields: String): String =
    mapper.writeValueAsString(completed("keyed", mapper.readTree(fields).asInstanceOf[ObjectNode]))

  /** Adds the fields that nobody has given, also to the objects in it. */
  private def completed(kind: String, spec: ObjectNode): ObjectNode = {
    golden.get(kind).properties.asScala.foreach { field =>
      if (!spec.has(field.getKey)) spec.set[JsonNode](field.getKey, field.getValue.deepCopy[JsonNode]()): Unit
    }
    spec.properties.asScala.foreach { field =>
      (field.getKey, field.getValue) match {
        case ("limits", limits) =>
          limits.asScala.foreach(one => completed("limit", one.asInstanceOf[ObjectNode]))
        case (part, inner: ObjectNode) if golden.has(part) => completed(part, inner)
        case _ =>
      }
    }
    spec
  }

  def asyncIO(df: DataFrame, function: Class[_], returns: String)(
      change: ObjectNode => Unit
  ): DataFrame = PythonBridge.asyncIO(df, null, json(function.getName, returns, change))
}
