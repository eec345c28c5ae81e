package io.pillarbox.spark.state

import io.pillarbox.api.{InputView, SerializerSnapshot}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The form of a serializer's values in a DataFrame.
 *
 * @param read reads a value in Catalyst's form; the view holds at least the value
 */
private[pillarbox] final case class StoredType(dataType: DataType, read: InputView => Any)

private[pillarbox] object StoredType {

  /** Returns the type of a serializer's values; those of an unknown one are their bytes. */
  def of(written: SerializerSnapshot): StoredType =
    known(written).getOrElse(StoredType(BinaryType, in => in.readBytes(in.remaining)))

  /** Returns the same, or None for an unknown serializer. */
  def known(written: SerializerSnapshot): Option[StoredType] = written.id match {
    case id if UnsafeRowSerializer.isRow(id) => Some(row(UnsafeRowSerializer.schemaOf(written)))
    case "long" => Some(StoredType(LongType, _.readLong()))
    case "int" => Some(StoredType(IntegerType, _.readInt()))
    case "double" => Some(StoredType(DoubleType, _.readDouble()))
    case "boolean" => Some(StoredType(BooleanType, _.readBoolean()))
    case "string" => Some(StoredType(StringType, in => UTF8String.fromString(in.readUtf8())))
    case "bytes" => Some(StoredType(BinaryType, in => in.readBytes(in.readVarInt())))
    case _ => None
  }

  private def row(schema: StructType): StoredType = {
    val rows = new UnsafeRowSerializer(schema)
    val shown = UnsafeRowSerializer.shownType(schema)
    if (shown eq schema) StoredType(schema, rows.deserialize)
    else StoredType(shown, in => rows.deserialize(in).get(0, shown))
  }
}
