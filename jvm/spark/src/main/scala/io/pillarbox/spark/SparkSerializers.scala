package io.pillarbox.spark

import io.pillarbox.api.TypeSerializer
import io.pillarbox.spark.state.{ObjectSerializer, RowSerializer}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{Encoder, Row}

/**
 * Serializers of what Spark has a schema for, to be used in an [[io.pillarbox.api.StateDescriptor]].
 * `pb.read_state` shows such state with its columns. A later version of a function may add nullable fields
 * and widen numbers.
 */
object SparkSerializers {

  /**
   * Rows of a schema such as "dest string, arr timestamp".
   *
   * @throws org.apache.spark.sql.catalyst.parser.ParseException if it is none
   */
  def rows(ddl: String): TypeSerializer[Row] = rows(StructType.fromDDL(ddl))

  /** Rows of a schema. */
  def rows(schema: StructType): TypeSerializer[Row] = new RowSerializer(schema)

  /**
   * Beans (`Encoders.bean(Visit.class)`), case classes (`Encoders.product[Visit]`), and whatever else has an
   * encoder.
   */
  def of[T](encoder: Encoder[T]): TypeSerializer[T] = new ObjectSerializer(encoder)
}
