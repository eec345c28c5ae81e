package io.pillarbox.spark.async

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.Arrays

import io.pillarbox.async.journal.CallKey
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

/**
 * The key of a row's call, the same in every process and run: a hash of the operator's name, the version of
 * its answers, and the names, types and values of the key's columns.
 *
 * {{{
 * key    = the first 16 bytes of SHA-256(SHA-256(head) values)
 * head   = text("pillarbox call 1") text(name) text(version) { text(column) text(type) }
 * text   = its bytes in UTF-8, behind their number in decimal digits and ":"; empty where there is no version
 * values = the columns as a row in Spark's binary form, UnsafeRow
 * }}}
 *
 * Rows with NaN, or with 0.0 and -0.0, have one key; strings are compared by their bytes, whatever their
 * collation. The hash is cryptographic, since two rows with one key would get each other's answers.
 * Single-threaded; rows are not kept.
 */
private[async] final class CallKeys(spec: AsyncIOSpec, childSchema: StructType, ordinals: Seq[Int])
    extends (InternalRow => CallKey) {
  private val columns = ordinals.map(childSchema.fields(_))
  private val project = UnsafeProjection.create(ordinals.zip(columns).map { case (ordinal, column) =>
    SparkAdapter.normalizeKey(BoundReference(ordinal, column.dataType, nullable = true))
  })
  private val digest = MessageDigest.getInstance("SHA-256")
  private val head = digest.digest(CallKeys.head(spec, columns).getBytes(UTF_8))

  override def apply(row: InternalRow): CallKey = {
    val values = CallKeys.bytesOf(project(row))
    digest.update(head)
    val hash = ByteBuffer.wrap(digest.digest(values))
    CallKey(hash.getLong(0), hash.getLong(8), values)
  }
}

private[async] object CallKeys {

  /** A copy: a projection has one buffer for all rows. */
  def bytesOf(key: UnsafeRow): Array[Byte] = {
    val start = (key.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt
    Arrays.copyOfRange(key.getBaseObject.asInstanceOf[Array[Byte]], start, start + key.getSizeInBytes)
  }

  /** Another value gives all calls new names. */
  private final val Format = "pillarbox call 1"

  private def head(spec: AsyncIOSpec, columns: Seq[StructField]): String = {
    val ofColumns = columns.flatMap(column => Seq(column.name, typeName(column.dataType)))
    (Seq(Format, spec.name, spec.journalVersion.getOrElse("")) ++ ofColumns).map(text).mkString
  }

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
