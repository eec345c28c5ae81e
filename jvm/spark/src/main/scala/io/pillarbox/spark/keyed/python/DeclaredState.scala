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
 * @param timeDomain that of a timer, event_time or processing_time
 * @param valueType the type of the value, element or accumulator
 * @param keyType the type of a map's keys
 */
private final case class DeclaredState(
    name: String,
    kind: String,
    timeDomain: Option[String],
    @JsonProperty("type") @JsonDeserialize(using = classOf[SpecJson.SchemaReader]) valueType: StructType,
    @JsonDeserialize(contentUsing = classOf[SpecJson.SchemaReader]) keyType: Option[StructType],
    ttl: Option[TtlSpec]
) {
  def goesByEventTime: Boolean = ttl.exists(_.config.timeDomain == TimeDomain.EVENT_TIME)

  /** The type of a map's keys, without fields for another state. */
  def mapKey: StructType = keyType.getOrElse(new StructType)

  private def values = timeDomain.fold(new UnsafeRowSerializer(valueType)) { domain =>
    new UnsafeRowSerializer(valueType, UnsafeRowSerializer.timerId(domain))
  }

  def descriptor: StateDescriptor[_ <: State] = {
    val lasting = kind match {
      case "list" => StateDescriptor.list(name, values)
      case "map" => StateDescriptor.map(name, new UnsafeRowSerializer(mapKey), values)
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
