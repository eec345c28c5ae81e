package io.pillarbox.spark.async

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import io.pillarbox.async.journal.CallKey
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.pillarbox.SparkAdapter
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform

/**
 * The key of a row's call: a hash of the operator's name, what it returns, and the names, types and values of
 * the key's columns. The same in every process and run. One thread; rows are not kept.
 *
 * Rows with NaN, or with 0.0 and -0.0, have one key; strings are compared by their bytes, whatever their
 * collation. A hash for cryptography, since two rows with one key would get each other's answers.
 */
private[async] final class CallKeys(spec: AsyncIOSpec, childSchema: StructType, ordinals: Seq[Int])
    extends (InternalRow => CallKey) {
  private val columns = ordinals.map(childSchema.fields(_))
  private val project = UnsafeProjection.create(ordinals.zip(columns).map { case (ordinal, column) =>
    SparkAdapter.normalizeKey(BoundReference(ordinal, column.dataType, nullable = true))
  })
  private val digest = MessageDigest.getInstance("SHA-256")
  private val operator = digest.digest(CallKeys.textOf(spec, StructType(columns)).getBytes(UTF_8))

  override def apply(row: InternalRow): CallKey = {
    val key = project(row)
    digest.update(operator)
    val bytes = key.getBaseObject.asInstanceOf[Array[Byte]]
    digest.update(bytes, (key.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt, key.getSizeInBytes)
    val hash = ByteBuffer.wrap(digest.digest())
    CallKey(hash.getLong(0), hash.getLong(8))
  }
}

private object CallKeys {

  /** Without what says nothing of values, such as metadata. */
  private def textOf(spec: AsyncIOSpec, key: StructType): String =
    (spec.name +: Seq(spec.returns, key).flatMap { schema =>
      schema.length.toString +: schema.flatMap(column => Seq(column.name, column.dataType.json))
    }).map(text => s"${text.length}:$text").mkString
}
