package io.pillarbox.spark.keyed.python

import com.fasterxml.jackson.databind.annotation.JsonDeserialize
import io.pillarbox.spark.base.SpecJson
import io.pillarbox.spark.state.{TtlSpec, UnsafeRowSerializer}
import io.pillarbox.state._
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types.StructType

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

  def valueDescriptor: ValueStateDescriptor[UnsafeRow] = ValueStateDescriptor(name, values, ttl)

  def listDescriptor: ListStateDescriptor[UnsafeRow] = ListStateDescriptor(name, values, ttl)

  def mapDescriptor: MapStateDescriptor[UnsafeRow, UnsafeRow] =
    MapStateDescriptor(name, new UnsafeRowSerializer(keyType), values, ttl)
}

private object DeclaredState {
  private final case class Ready(states: Seq[One] = Nil)

  private final case class One(
      name: String,
      kind: String,
      @JsonDeserialize(using = classOf[SpecJson.SchemaReader]) `type`: StructType,
      @JsonDeserialize(using = classOf[SpecJson.SchemaReader]) keyType: StructType,
      ttl: Option[TtlSpec]
  )

  /** Reads the worker's READY. */
  def fromReady(json: String): Seq[DeclaredState] = SpecJson
    .read[Ready](json)
    .states
    .map(one => DeclaredState(one.name, one.kind, one.`type`, one.keyType, one.ttl.map(_.config)))
}
