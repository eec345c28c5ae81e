package io.pillarbox.spark.keyed

import io.pillarbox.spark.state.UnsafeRowSerializer
import io.pillarbox.state.serialization._
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.types.StructType

/**
 * `Row`s as values of state, for functions in Scala and Java: stored in Spark's binary format.
 *
 * A later version of a function may add nullable fields and widen numbers; see [[RowEvolution]].
 */
final class RowSerializer(schema: StructType) extends TypeSerializer[Row] {
  private val rows = new UnsafeRowSerializer(schema)
  @transient private lazy val toCatalyst = CatalystTypeConverters.createToCatalystConverter(schema)
  @transient private lazy val toScala = CatalystTypeConverters.createToScalaConverter(schema)
  @transient private lazy val toUnsafe = UnsafeProjection.create(schema)

  override def serialize(value: Row, out: OutputView): Unit =
    rows.serialize(toUnsafe(toCatalyst(value).asInstanceOf[InternalRow]), out)

  override def deserialize(in: InputView): Row = external(rows.deserialize(in))

  /** Rows are not changed by anybody. */
  override def copy(value: Row): Row = value

  override def snapshot: SerializerSnapshot = rows.snapshot

  override def compatibilityWith(written: SerializerSnapshot): Compatibility[Row] =
    rows.compatibilityWith(written) match {
      case Compatibility.AsIs => Compatibility.AsIs
      case Compatibility.AfterMigration(read) => Compatibility.AfterMigration(in => external(read(in)))
      case Compatibility.Incompatible(reason) => Compatibility.Incompatible(reason)
    }

  private def external(row: UnsafeRow): Row = toScala(row).asInstanceOf[Row]
}

object RowSerializer {

  /** Of a schema such as "dest string, arr timestamp". */
  def of(ddl: String): RowSerializer = new RowSerializer(StructType.fromDDL(ddl))
}
