package io.pillarbox.spark.state

import scala.util.control.NonFatal

import io.pillarbox.api.{Compatibility, InputView, OutputView, SerializerSnapshot, TypeSerializer}
import org.apache.spark.sql.catalyst.encoders.encoderFor
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Encoder, Row}

/**
 * Stores objects as values of state in Spark's binary format, for functions in Scala and Java.
 *
 * A later version of a function may add nullable fields and widen numbers; see [[RowEvolution]].
 */
private[pillarbox] abstract class EncodedSerializer[T](schema: StructType) extends TypeSerializer[T] {
  private val rows = new UnsafeRowSerializer(schema)
  @transient private lazy val fromShown = UnsafeRowSerializer.fromShown(schema)

  /** Returns the object as a row, which may be reused for the next object. */
  protected def encode(value: T): UnsafeRow

  protected def decode(row: UnsafeRow): T

  /** Returns the object for Catalyst's form of what Spark shows; see [[UnsafeRowSerializer.shownType]]. */
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

/** Stores `Row`s, which nobody changes. */
private[pillarbox] final class RowSerializer(schema: StructType) extends EncodedSerializer[Row](schema) {
  @transient private lazy val toCatalyst = CatalystTypeConverters.createToCatalystConverter(schema)
  @transient private lazy val toScala = CatalystTypeConverters.createToScalaConverter(schema)
  @transient private lazy val toUnsafe = UnsafeProjection.create(schema)

  override protected def encode(value: Row): UnsafeRow = {
    if (value.length != schema.length)
      throw new IllegalArgumentException(
        s"A row of ${value.length} columns was given to state of ${schema.length}: ${schema.toDDL}"
      )
    try toUnsafe(toCatalyst(value).asInstanceOf[InternalRow])
    catch { case NonFatal(_) => throw misfit(value) }
  }

  /** Spark's own error quotes the value, which may be a secret. */
  private def misfit(row: Row): RuntimeException = {
    val classes = row.toSeq.map(value => if (value == null) "null" else value.getClass.getName)
    new IllegalArgumentException(
      s"A row of ${classes.mkString(", ")} was given to state of ${schema.toDDL}"
    )
  }

  override protected def decode(row: UnsafeRow): Row = toScala(row).asInstanceOf[Row]
  override def copy(value: Row): Row = value
}

/** Stores objects that Spark has an encoder for: beans, case classes, tuples. */
private[pillarbox] final class ObjectSerializer[T](encoder: Encoder[T])
    extends EncodedSerializer[T](encoder.schema) {
  // Made anew after each transfer: Spark's expressions of collections can't be serialized before they are
  // resolved.
  @transient private lazy val expressions = encoderFor(encoder)
  @transient private lazy val toInternal = expressions.createSerializer()
  @transient private lazy val toUnsafe = UnsafeProjection.create(encoder.schema)
  @transient private lazy val toObject = expressions.resolveAndBind().createDeserializer()

  override protected def encode(value: T): UnsafeRow = toUnsafe(toInternal(value))
  override protected def decode(row: UnsafeRow): T = toObject(row)
}
