package io.pillarbox.spark.keyed.jvm

import io.pillarbox.api.{SerializerSnapshot, StateDescriptor, TypeSerializer}
import io.pillarbox.spark.keyed.KeyedErrors
import io.pillarbox.spark.state.{EncodedSerializer, InitialTarget, UnsafeRowSerializer}
import io.pillarbox.state._
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.types._

/**
 * States of functions of the JVM, whose values are rows or of basic types, as initial values get into them.
 */
private object JvmInitialTarget {

  def of(operator: String, backend: KeyedStateBackend[_], descriptor: StateDescriptor[_]): InitialTarget = {
    val name = descriptor.name
    if (descriptor.kind == StateDescriptor.Kind.AGGREGATING)
      throw KeyedErrors.initialStateUnsupported(operator, name, s"of ${descriptor.kind} state")
    def typeOf(written: SerializerSnapshot): DataType = dataType(written)
      .getOrElse(throw KeyedErrors.initialStateUnsupported(operator, name, written.toString))
    val valueType = typeOf(descriptor.valueSerializer.snapshot)
    val keyType = Option(descriptor.userKeySerializer).fold(null: DataType)(keys => typeOf(keys.snapshot))
    val toKey =
      if (keyType == null) identity[Any](_) else converter(descriptor.userKeySerializer, keyType)
    InitialTarget.of(backend, descriptor, valueType, keyType)(
      toKey,
      converter(descriptor.valueSerializer, valueType)
    )
  }

  /** From what is shown of a value to what the function works with. */
  private def converter(serializer: TypeSerializer[_], shown: DataType): Any => Any =
    serializer match {
      case encoded: EncodedSerializer[_] => encoded.ofShown
      case _ => CatalystTypeConverters.createToScalaConverter(shown)
    }

  private def dataType(written: SerializerSnapshot): Option[DataType] = written.id match {
    case UnsafeRowSerializer.Id => Some(UnsafeRowSerializer.shownType(UnsafeRowSerializer.schemaOf(written)))
    case "long" => Some(LongType)
    case "int" => Some(IntegerType)
    case "double" => Some(DoubleType)
    case "boolean" => Some(BooleanType)
    case "string" => Some(StringType)
    case "bytes" => Some(BinaryType)
    case _ => None
  }
}
