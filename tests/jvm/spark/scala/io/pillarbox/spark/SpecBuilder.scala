package io.pillarbox.spark

import java.util.UUID

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.types.StructType

/** Operators as the Python API asks for them: a spec as JSON, changed by what a test says. */
object SpecBuilder {
  private val mapper = new ObjectMapper

  /** A spec for a function by class name. */
  def json(className: String, returns: String, change: ObjectNode => Unit = _ => ()): String = {
    val spec = mapper.createObjectNode
    spec
      .put("name", "test")
      .put("form", "jvm")
      .put("class_name", className)
      .put("ordered", true)
      .put("capacity", 10)
      .put("on_error", "raise")
      .put("error_column", "error")
      .put("returns", StructType.fromDDL(returns).json)
      .put("operator_id", UUID.randomUUID.toString)
    spec.putArray("inputs")
    change(spec)
    if (spec.get("ordered").asBoolean) spec.put("most_held", 10 * spec.get("capacity").asInt)
    mapper.writeValueAsString(spec)
  }

  def asyncIO(df: DataFrame, function: Class[_], returns: String)(
      change: ObjectNode => Unit
  ): DataFrame = PythonBridge.asyncIO(df, null, json(function.getName, returns, change))
}
