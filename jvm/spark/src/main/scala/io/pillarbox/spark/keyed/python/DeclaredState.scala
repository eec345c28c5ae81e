package io.pillarbox.spark.keyed.python

import com.fasterxml.jackson.annotation.JsonProperty
import com.fasterxml.jackson.databind.annotation.JsonDeserialize
import io.pillarbox.api.{State, StateDescriptor, TimeDomain}
import io.pillarbox.spark.base.SpecJson
import io.pillarbox.spark.state.{TtlSpec, UnsafeRowSerializer}
import org.apache.spark.sql.types.StructType

/**
 * A state that the Python function declared when it was opened.
 *
 * @param kind value, list, map, reducing, aggregating or timer; the worker keeps the last three as values
 * @param timeDomain that of a timer, event_time or processing_time, else null
 * @param valueType the type of the value, element or accumulator
 * @param keyType the type of a map's keys, else null
 */
private final case class DeclaredState(
    name: String,
    kind: String,
    timeDomain: String,
    @JsonProperty("type") @JsonDeserialize(using = classOf[SpecJson.SchemaReader]) valueType: StructType,
    @JsonDeserialize(using = classOf[SpecJson.SchemaReader]) keyType: StructType,
    ttl: Option[TtlSpec]
) {
  def isTimer: Boolean = kind == "timer"

  def goesByEventTime: Boolean = ttl.exists(_.config.timeDomain == TimeDomain.EVENT_TIME)

  private def values =
    if (isTimer) new UnsafeRowSerializer(valueType, UnsafeRowSerializer.timerId(timeDomain))
    else new UnsafeRowSerializer(valueType)

  def descriptor: StateDescriptor[_ <: State] = {
    val lasting = kind match {
      case "list" => StateDescriptor.list(name, values)
      case "map" => StateDescriptor.map(name, new UnsafeRowSerializer(keyType), values)
      case _ => StateDescriptor.value(name, values)
    }
    ttl.fold[StateDescriptor[_ <: State]](lasting)(spec => lasting.withTtl(spec.config))
  }
}

/**
 * The worker's READY.
 *
 * @param timers true if the function may set timers
 */
private final case class Ready(states: Seq[DeclaredState] = Nil, timers: Boolean = false)

private object Ready {
  def fromJson(json: String): Ready = SpecJson.read[Ready](json)
}
