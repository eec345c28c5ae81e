package io.pillarbox.spark.async

import java.nio.ByteBuffer
import java.security.MessageDigest

import io.pillarbox.async.{ValueLimiter, ValueLimiters}
import io.pillarbox.metered.lease.LimitValue
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression, UnsafeProjection, UnsafeRow}

/**
 * The limits of rows, of which some have a key. Values are equal as those of `by` are: null is one, and so are
 * NaN, and 0.0 with -0.0. For processes a value is the first 16 bytes of the SHA-256 of its binary form.
 * Single-threaded.
 *
 * @param keys the columns over the rows that come in, of each limit that has a key
 */
private[async] final class RowValueLimits(held: HeldLimits, keys: Seq[Expression])
    extends ValueLimiters[InternalRow] {
  private val columns = keys.distinct
  private val project = UnsafeProjection.create(columns)
  private val single = columns.zipWithIndex.map { case (column, i) =>
    UnsafeProjection.create(Seq(BoundReference(i, column.dataType, nullable = true)))
  }
  private val digest = MessageDigest.getInstance("SHA-256")

  override def valueOf(row: InternalRow): AnyRef = project(row).copy()

  override def open(value: AnyRef): ValueLimiter = {
    val hashes = single.map(column => hash(column(value.asInstanceOf[UnsafeRow])))
    held.open(keys.map(key => hashes(columns.indexOf(key))))
  }

  private def hash(value: UnsafeRow) = {
    val bytes = ByteBuffer.wrap(digest.digest(CallKeys.bytesOf(value)))
    LimitValue(bytes.getLong(0), bytes.getLong(8))
  }
}
