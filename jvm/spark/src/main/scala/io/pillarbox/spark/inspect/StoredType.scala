package io.pillarbox.spark.inspect

import io.pillarbox.spark.state.UnsafeRowSerializer
import io.pillarbox.state.serialization.{InputView, SerializerSnapshot}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * How values that a serializer wrote look in a DataFrame.
 *
 * @param read
 *   a value as Catalyst has it; the view holds at least the value
 */
final private case class StoredType(dataType: DataType, read: InputView => Any)

private object StoredType {

  /** A serializer that is not known here gives its bytes. */
  def of(written: SerializerSnapshot): StoredType =
    known(written).getOrElse(StoredType(BinaryType, in => in.readBytes(in.remaining)))

  private def known(written: SerializerSnapshot): Option[StoredType] = written.id match {
    case UnsafeRowSerializer.Id => Some(row(UnsafeRowSerializer.schemaOf(written)))
    case "long" => Some(StoredType(LongType, _.readLong()))
    case "int" => Some(StoredType(IntegerType, _.readInt()))
    case "double" => Some(StoredType(DoubleType, _.readDouble()))
    case "boolean" => Some(StoredType(BooleanType, _.readBoolean()))
    case "string" => Some(StoredType(StringType, in => UTF8String.fromString(in.readUtf8())))
    case "bytes" => Some(StoredType(BinaryType, in => in.readBytes(in.readVarInt())))
    case "product" => all(written.nested).map(product)
    case "list" => all(written.nested).map(elements => list(elements.head))
    case _ => None
  }

  private def all(written: Seq[SerializerSnapshot]): Option[Seq[StoredType]] = {
    val types = written.flatMap(known)
    Option.when(types.size == written.size)(types)
  }

  private def row(schema: StructType): StoredType = {
    val rows = new UnsafeRowSerializer(schema)
    val shown = UnsafeRowSerializer.shownType(schema)
    if (shown eq schema) StoredType(schema, rows.deserialize)
    else StoredType(shown, in => rows.deserialize(in).get(0, shown))
  }

  /** Tuples and case classes: a bit a field tells whether it is there. */
  private def product(fields: Seq[StoredType]): StoredType = {
    val columns = fields.zipWithIndex.map { case (field, i) => StructField(s"_${i + 1}", field.dataType) }
    StoredType(
      StructType(columns),
      in => {
        val mask = in.readBytes((fields.size + 7) / 8)
        val values = fields.zipWithIndex.map { case (field, i) =>
          if ((mask(i / 8) & (1 << (i & 7))) != 0) field.read(in) else null
        }
        new GenericInternalRow(values.toArray[Any]): InternalRow
      }
    )
  }

  private def list(element: StoredType): StoredType = StoredType(
    ArrayType(element.dataType),
    in => new GenericArrayData(Array.fill[Any](in.readVarInt())(element.read(in)))
  )
}
