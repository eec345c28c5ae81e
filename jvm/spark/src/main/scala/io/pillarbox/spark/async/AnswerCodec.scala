package io.pillarbox.spark.async

import java.util.{ArrayList => JArrayList, Collection => JCollection}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Literal, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.StructType
import org.apache.spark.unsafe.Platform

/**
 * Encodes the rows of an answer as bytes: their number, then each with its size in Spark's binary form,
 * without the columns that the function does not know. Single-threaded.
 *
 * @param resultSchema the columns of `returns`, and those after them, which are null in an answer
 */
private[spark] final class AnswerCodec(returns: StructType, resultSchema: StructType) {
  import AnswerCodec._

  private val references = returns.zipWithIndex.map { case (column, i) =>
    BoundReference(i, column.dataType, nullable = true)
  }
  private val toAnswer = UnsafeProjection.create(references)
  private val others = resultSchema.drop(returns.length)
  private val toResult =
    UnsafeProjection.create(references ++ others.map(column => Literal(null, column.dataType)))

  /** The bytes that were encoded last, of which the first `length` count. */
  var bytes: Array[Byte] = new Array[Byte](1 << 10)
  var length: Int = 0

  def encode(rows: JCollection[InternalRow]): Unit = {
    length = 0
    putLong(rows.size.toLong)
    rows.forEach { row =>
      val answer = toAnswer(row)
      val size = answer.getSizeInBytes
      putLong(size.toLong)
      ensure(size)
      answer.writeToMemory(bytes, (Platform.BYTE_ARRAY_OFFSET + length).toLong)
      length += size
    }
  }

  /** Returns the rows that `encode` was given; they share `from`. */
  def decode(from: Array[Byte]): JCollection[InternalRow] = {
    val count = Platform.getLong(from, start(0)).toInt
    val rows = new JArrayList[InternalRow](count)
    var at = WordSize
    var i = 0
    while (i < count) {
      val size = Platform.getLong(from, start(at)).toInt
      val answer = new UnsafeRow(returns.length)
      answer.pointTo(from, start(at + WordSize), size)
      rows.add(if (others.isEmpty) answer else toResult(answer).copy())
      at += WordSize + size
      i += 1
    }
    rows
  }

  private def putLong(value: Long): Unit = {
    ensure(WordSize)
    Platform.putLong(bytes, start(length), value)
    length += WordSize
  }

  private def ensure(more: Int): Unit = if (length + more > bytes.length)
    bytes = java.util.Arrays.copyOf(bytes, math.max(2 * bytes.length, length + more))
}

private object AnswerCodec {
  private final val WordSize = 8

  private def start(at: Int): Long = (Platform.BYTE_ARRAY_OFFSET + at).toLong
}
