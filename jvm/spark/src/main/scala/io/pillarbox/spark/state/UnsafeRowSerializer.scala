package io.pillarbox.spark.state

import io.pillarbox.api.{Compatibility, InputView, OutputView, SerializerSnapshot, TypeSerializer}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.{DataType, StructField, StructType}
import org.apache.spark.unsafe.Platform

/**
 * Stores Spark's binary rows as keys and values of state: length and bytes, without conversion.
 *
 * The bytes are in the machine's byte order, as everywhere in Spark. A value that was read shares no bytes
 * with the store. Rows written with an older schema are read where [[RowEvolution]] allows it.
 *
 * @param id what the rows are kept for: `Id`, or a `timerId`
 */
private[pillarbox] final class UnsafeRowSerializer(
    val schema: StructType,
    id: String = UnsafeRowSerializer.Id
) extends TypeSerializer[UnsafeRow] {
  private val numFields = schema.length

  override def serialize(row: UnsafeRow, out: OutputView): Unit = {
    val size = row.getSizeInBytes
    out.writeVarInt(size)
    row.getBaseObject match {
      case bytes: Array[Byte] =>
        out.writeBytes(bytes, (row.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt, size)
      case _ => out.writeBytes(row.getBytes, 0, size)
    }
  }

  override def deserialize(in: InputView): UnsafeRow = UnsafeRowSerializer.read(in, numFields)

  override def copy(row: UnsafeRow): UnsafeRow = row.copy()

  /** Hashes the bytes with MurmurHash3. */
  override def hash(row: UnsafeRow): Int = row.hashCode

  override def equal(left: UnsafeRow, right: UnsafeRow): Boolean = left == right

  override def snapshot: SerializerSnapshot = UnsafeRowSerializer.snapshotOf(schema, id)

  override def compatibilityWith(written: SerializerSnapshot): Compatibility[UnsafeRow] =
    if (written == snapshot) Compatibility.asIs()
    else if (!UnsafeRowSerializer.isRow(written.id)) super.compatibilityWith(written)
    else if (written.id != id)
      Compatibility.incompatible(
        s"it was ${UnsafeRowSerializer.shown(written.id)}, it is now ${UnsafeRowSerializer.shown(id)}"
      )
    else RowEvolution.between(UnsafeRowSerializer.schemaOf(written), schema)
}

private[pillarbox] object UnsafeRowSerializer {
  private[pillarbox] final val Id = "spark-row"

  private final val Timer = s"$Id-timer-"

  /** The id of rows that are the timers of a Python function, whose owner has them by time domain. */
  private[pillarbox] def timerId(timeDomain: String): String = Timer + timeDomain

  /** True if a stored serializer is one of rows. */
  private[pillarbox] def isRow(id: String): Boolean = id == Id || id.startsWith(Timer)

  private def shown(id: String): String =
    if (id == Id) "a state" else s"a timer in ${id.stripPrefix(Timer).replace('_', ' ')}"

  private[state] def snapshotOf(schema: StructType, id: String = Id): SerializerSnapshot =
    new SerializerSnapshot(id, 1, plain(schema).json, java.util.List.of())

  /** Reads a row that was written with so many fields. */
  private[state] def read(in: InputView, numFields: Int): UnsafeRow = {
    val size = in.readVarInt()
    val row = new UnsafeRow(numFields)
    row.pointTo(in.readBytes(size), size)
    row
  }

  /** The type that users see: a plain value of the Python API is stored as a struct of one column. */
  private[pillarbox] def shownType(schema: StructType): DataType = schema.fields match {
    case Array(StructField("value", plain, _, _)) => plain
    case _ => schema
  }

  /** Returns a function that converts a shown value to its struct. */
  private[pillarbox] def fromShown(schema: StructType): Any => UnsafeRow = {
    val toUnsafe = UnsafeProjection.create(schema)
    if (shownType(schema) eq schema) shown => toUnsafe(shown.asInstanceOf[InternalRow]).copy()
    else shown => toUnsafe(new GenericInternalRow(Array[Any](shown))).copy()
  }

  /** Returns the schema of a stored serializer of rows. */
  private[pillarbox] def schemaOf(written: SerializerSnapshot): StructType =
    DataType.fromJson(written.parameters).asInstanceOf[StructType]

  /** Drops the metadata of columns, such as watermarks and comments, which is no part of the type. */
  private def plain(schema: StructType): StructType =
    StructType(schema.map(field => field.copy(metadata = org.apache.spark.sql.types.Metadata.empty)))
}
