package io.pillarbox.spark

import io.pillarbox.api.TypeSerializer
import io.pillarbox.spark.state.{ObjectSerializer, RowSerializer}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Encoder, Row}

/**
 * Serializers of values that Spark has a schema for, to be used in an [[io.pillarbox.api.StateDescriptor]].
 * `pb.read_state` shows such state with its columns. A later version of a function may add nullable fields
 * and widen numbers.
 */
object SparkSerializers {

  /**
   * Returns a serializer of rows of a schema such as "dest string, arr timestamp".
   *
   * @throws org.apache.spark.sql.catalyst.parser.ParseException if it is no schema
   */
  def rows(ddl: String): TypeSerializer[Row] = rows(StructType.fromDDL(ddl))

  /** Returns a serializer of rows of a schema. */
  def rows(schema: StructType): TypeSerializer[Row] = new RowSerializer(schema)

  /** Returns a serializer of beans, case classes and other objects, such as by `Encoders.product[Visit]`. */
  def of[T](encoder: Encoder[T]): TypeSerializer[T] = new ObjectSerializer(encoder)
}
