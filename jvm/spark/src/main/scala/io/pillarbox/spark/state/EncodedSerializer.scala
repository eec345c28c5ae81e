package io.pillarbox.spark.state

import io.pillarbox.api.{Compatibility, InputView, OutputView, SerializerSnapshot, TypeSerializer}
import org.apache.spark.sql.catalyst.encoders.encoderFor
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Encoder, Row}

/**
 * Objects as values of state, for functions in Scala and Java: stored in Spark's binary format.
 *
 * A later version of a function may add nullable fields and widen numbers; see [[RowEvolution]].
 */
private[pillarbox] abstract class EncodedSerializer[T](schema: StructType) extends TypeSerializer[T] {
  private val rows = new UnsafeRowSerializer(schema)
  @transient private lazy val fromShown = UnsafeRowSerializer.fromShown(schema)

  /** The row may be reused for the next object. */
  protected def encode(value: T): UnsafeRow

  protected def decode(row: UnsafeRow): T

  /** The object of what Spark shows of it, as Catalyst has it; see [[UnsafeRowSerializer.shownType]]. */
  final def ofShown(shown: Any): T = decode(fromShown(shown))

  override final def serialize(value: T, out: OutputView): Unit = rows.serialize(encode(value), out)

  override final def deserialize(in: InputView): T = decode(rows.deserialize(in))

  override def copy(value: T): T = decode(encode(value).copy())

  override final def snapshot: SerializerSnapshot = rows.snapshot

  override final def compatibilityWith(written: SerializerSnapshot): Compatibility[T] =
    rows.compatibilityWith(written) match {
      case _: Compatibility.AsIs[UnsafeRow] => Compatibility.asIs()
      case migrated: Compatibility.AfterMigration[UnsafeRow] =>
        Compatibility.afterMigration(in => decode(migrated.reader.apply(in)))
      case refused: Compatibility.Incompatible[UnsafeRow] => Compatibility.incompatible(refused.reason)
    }
}

/** `Row`s. They are not changed by anybody. */
private[pillarbox] final class RowSerializer(schema: StructType) extends EncodedSerializer[Row](schema) {
  @transient private lazy val toCatalyst = CatalystTypeConverters.createToCatalystConverter(schema)
  @transient private lazy val toScala = CatalystTypeConverters.createToScalaConverter(schema)
  @transient private lazy val toUnsafe = UnsafeProjection.create(schema)

  override protected def encode(value: Row): UnsafeRow = {
    if (value.length != schema.length)
      throw new IllegalArgumentException(
        s"A row of ${value.length} columns was given to state of ${schema.length}: ${schema.toDDL}"
      )
    toUnsafe(toCatalyst(value).asInstanceOf[InternalRow])
  }

  override protected def decode(row: UnsafeRow): Row = toScala(row).asInstanceOf[Row]
  override def copy(value: Row): Row = value
}

/** Beans, case classes, tuples: what Spark has an encoder for. */
private[pillarbox] final class ObjectSerializer[T](encoder: Encoder[T])
    extends EncodedSerializer[T](encoder.schema) {
  // Made anew where the serializer arrives: Spark's expressions of collections don't travel before they are
  // resolved.
  @transient private lazy val expressions = encoderFor(encoder)
  @transient private lazy val toInternal = expressions.createSerializer()
  @transient private lazy val toUnsafe = UnsafeProjection.create(encoder.schema)
  @transient private lazy val toObject = expressions.resolveAndBind().createDeserializer()

  override protected def encode(value: T): UnsafeRow = toUnsafe(toInternal(value))
  override protected def decode(row: UnsafeRow): T = toObject(row)
}
