package io.pillarbox.spark.keyed.jvm

import io.pillarbox.api.{SerializerSnapshot, StateDescriptor, TypeSerializer}
import io.pillarbox.spark.keyed.KeyedErrors
import io.pillarbox.spark.state.{EncodedSerializer, InitialTarget, StoredType}
import io.pillarbox.state._
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.types.DataType

/** Converts initial values for the states of JVM functions, whose values are rows or of basic types. */
private object JvmInitialTarget {

  def of(operator: String, backend: KeyedStateBackend[_], descriptor: StateDescriptor[_]): InitialTarget = {
    def unsupported(serializer: String) = KeyedErrors
      .named("INITIAL_STATE_UNSUPPORTED", operator, "state" -> descriptor.name, "serializer" -> serializer)
    if (descriptor.kind == StateDescriptor.Kind.AGGREGATING)
      throw unsupported(s"of ${descriptor.kind} state")
    def typeOf(written: SerializerSnapshot): DataType = StoredType
      .known(written)
      .map(_.dataType)
      .getOrElse(throw unsupported(written.toString))
    val valueType = typeOf(descriptor.valueSerializer.snapshot)
    val keyType = Option(descriptor.userKeySerializer).fold(null: DataType)(keys => typeOf(keys.snapshot))
    val toKey = if (keyType == null) identity[Any](_) else converter(descriptor.userKeySerializer, keyType)
    val toValue = converter(descriptor.valueSerializer, valueType)
    InitialTarget.of(backend, descriptor, valueType, keyType)(toKey, toValue)
  }

  /** Returns a converter of a value as it is shown into the function's own. */
  private def converter(serializer: TypeSerializer[_], shown: DataType): Any => Any =
    serializer match {
      case encoded: EncodedSerializer[_] => encoded.ofShown
      case _ => CatalystTypeConverters.createToScalaConverter(shown)
    }
}
