package io.pillarbox.spark.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types.{DataType, LongType}
import org.scalatest.funsuite.AnyFunSuite

/** Rows come out in the order in which they were given, those made on demand included. */
class ReadyRowsSuite extends AnyFunSuite {
  private val toRow = UnsafeProjection.create(Array[DataType](LongType))

  /** Rows that are one object, as a reader of columns gives them; `made` counts them. */
  private def lazily(numbers: Range): Iterator[UnsafeRow] = numbers.iterator.map { number =>
    made += 1
    toRow(InternalRow(number.toLong))
  }
  private var made = 0

  private def take(rows: ReadyRows): Seq[Long] =
    Iterator.continually(rows.poll()).takeWhile(_ != null).map(_.getLong(0)).toSeq

  test("rows are made as they are pulled, and before those that came later") {
    val rows = new ReadyRows
    rows.addAll(lazily(0 until 3))
    rows.add(toRow(InternalRow(3L)))
    assert(!rows.isEmpty && made == 0)
    assert(rows.poll().getLong(0) == 0L && made == 1)
    assert(take(rows) == Seq(1L, 2L, 3L))
    assert(rows.isEmpty)
  }

  test("what was not made by the time that its source goes is made then, in its place") {
    val rows = new ReadyRows
    made = 0
    rows.add(InternalRow(-1L))
    rows.addAll(lazily(0 until 2))
    rows.settle()
    rows.addAll(lazily(2 until 4))
    assert(take(rows) == Seq(-1L, 0L, 1L, 2L, 3L))
    rows.addAll(lazily(0 until 3))
    rows.poll()
    rows.settle()
    assert(made == 7)
    assert(take(rows) == Seq(1L, 2L))
  }
}
