package io.pillarbox.spark.async.carry

import org.apache.spark.sql.catalyst.expressions.{
  BoundReference,
  Expression,
  Literal,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.types.StructType

/**
 * What a slot has of its rows: some columns of the input, and of a row whose call is done fewer. Each function
 * is for one thread.
 *
 * @param input the columns of the input, all of which go out again
 * @param kept the places of those that are kept
 * @param leaves for each of them whether it goes out with its value, else as null
 * @param results the columns that the operator adds
 */
private[pillarbox] final case class CarriedColumns(
    input: StructType,
    kept: Seq[Int],
    leaves: Seq[Boolean],
    results: StructType
) {

  /** From a row that comes in to what is kept of it. */
  def toKept: UnsafeProjection = UnsafeProjection.create(kept.map(place => reference(input, place, place)))

  /** From what is kept of a row to the same once its call is done; an order within `by` is kept on. */
  def toDone(by: Seq[Int]): UnsafeRow => UnsafeRow = {
    val expressions = done((at, leaves) => leaves || by.contains(at))
    if (expressions.exists(_.isInstanceOf[Literal])) projection(expressions) else identity
  }

  /** From what is kept of a row, with its result behind it, to what waits to go out. */
  def toResult: UnsafeProjection = UnsafeProjection.create(done((_, leaves) => leaves) ++ answers)

  /** From what waits to go out to what goes out. */
  def toOutput: UnsafeRow => UnsafeRow =
    if (kept == input.indices) identity
    else {
      val columns = input.indices.map { place =>
        val at = kept.indexOf(place)
        if (at < 0) Literal(null, input(place).dataType) else reference(input, place, at)
      }
      projection(columns ++ answers)
    }

  private def answers = results.indices.map(i => reference(results, i, kept.length + i))

  private def projection(expressions: Seq[Expression]): UnsafeRow => UnsafeRow = {
    val made = UnsafeProjection.create(expressions)
    row => made(row)
  }

  private def done(isThere: (Int, Boolean) => Boolean): Seq[Expression] =
    kept.zip(leaves).zipWithIndex.map { case ((place, leaves), at) =>
      if (isThere(at, leaves)) reference(input, place, at) else Literal(null, input(place).dataType)
    }

  private def reference(columns: StructType, place: Int, at: Int): Expression =
    BoundReference(at, columns(place).dataType, nullable = true)
}
