package io.pillarbox.spark.async

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.Arrays

import io.pillarbox.metered.journal.CallKey
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

/**
 * Names calls, alike in every process and run: by what is asked, or by the place of a row and what its call is
 * given.
 *
 * {{{
 * name   = the first 16 bytes of SHA-256(SHA-256(head) row values)
 * head   = text("pillarbox call 1") text(name) text(version) { text(column) text(type) }, by what is asked, or
 *          text("pillarbox place 1") text(scope) { text(column) text(type) }, by the place
 * text   = its bytes in UTF-8, behind their number in decimal digits and ":"; empty where there is no version
 * row    = the number of the row in its scope, 8 bytes, by the place; else nothing
 * values = the columns as a row in Spark's binary form, UnsafeRow
 * }}}
 *
 * By what is asked, rows with NaN, or with 0.0 and -0.0, have one name; strings are compared by their bytes,
 * whatever their collation. The hash is cryptographic, since two rows with one name would get each other's
 * answers. Single-threaded; rows are not kept.
 */
private[async] final class CallKeys private (head: String, columns: Seq[Expression], byPlace: Boolean)
    extends ((InternalRow, Long) => CallKey) {
  private val project = UnsafeProjection.create(columns)
  private val digest = MessageDigest.getInstance("SHA-256")
  private val hashedHead = digest.digest(head.getBytes(UTF_8))
  private val place = ByteBuffer.allocate(java.lang.Long.BYTES)

  override def apply(row: InternalRow, elementId: Long): CallKey = {
    val values = CallKeys.bytesOf(project(row))
    digest.update(hashedHead)
    if (byPlace) digest.update(place.putLong(0, elementId).array)
    val hash = ByteBuffer.wrap(digest.digest(values))
    CallKey(hash.getLong(0), hash.getLong(8), values)
  }
}

private[async] object CallKeys {

  /** Names calls by the values of the key's columns, for the operator's name and the version of its answers. */
  def byValues(spec: AsyncIOSpec, childSchema: StructType, ordinals: Seq[Int]): CallKeys = {
    val columns = ordinals.map(childSchema.fields(_))
    val values = ordinals.zip(columns).map { case (ordinal, column) =>
      SparkAdapter.normalizeKey(BoundReference(ordinal, column.dataType, nullable = true))
    }
    new CallKeys(head(spec, columns), values, byPlace = false)
  }

  /**
   * Names calls by the numbers of rows in `scope` and by what the function is given: which row has a number may
   * differ between two runs, and then it is another call.
   */
  def byPlace(scope: String, childSchema: StructType, inputs: Seq[Int]): CallKeys = {
    val seen = inputs.map(ordinal => BoundReference(ordinal, childSchema(ordinal).dataType, nullable = true))
    val head = Seq("pillarbox place 1", scope) ++ described(inputs.map(childSchema.fields(_)))
    new CallKeys(head.map(text).mkString, seen, byPlace = true)
  }

  /** A copy: a projection has one buffer for all rows. */
  def bytesOf(key: UnsafeRow): Array[Byte] = {
    val start = (key.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt
    Arrays.copyOfRange(key.getBaseObject.asInstanceOf[Array[Byte]], start, start + key.getSizeInBytes)
  }

  /** Another value gives all calls new names. */
  private final val Format = "pillarbox call 1"

  private def head(spec: AsyncIOSpec, columns: Seq[StructField]): String = {
    (Seq(Format, spec.name, spec.journalVersion.getOrElse("")) ++ described(columns))
      .map(text)
      .mkString
  }

  private def described(columns: Seq[StructField]): Seq[String] =
    columns.flatMap(column => Seq(column.name, typeName(column.dataType)))

  private def text(part: String): String = s"${part.getBytes(UTF_8).length}:$part"

  /** Returns the type as in DDL, without comments, nullability and collations, which do not change values. */
  private def typeName(dataType: DataType): String = dataType match {
    case struct: StructType =>
      struct.map(field => s"${quoted(field.name)}:${typeName(field.dataType)}").mkString("struct<", ",", ">")
    case array: ArrayType => s"array<${typeName(array.elementType)}>"
    case _: StringType => "string"
    case other => other.catalogString
  }

  private def quoted(name: String): String = s"`${name.replace("`", "``")}`"
}
