package io.pillarbox.spark.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils

/**
 * Treats the rows of a task that are at or behind the watermark of the micro-batch before, in real-time
 * mode that of this one, by `on_late`. Under
 * "drop", a function that has nothing to do with event time gets them like any other row, as with Spark's own
 * `transformWithState`. Mailbox thread only.
 */
private final class LateRows(task: KeyedTaskSpec, usesEventTime: Boolean, ready: ReadyRows) {
  import task.spec.{late, namesEventTime}

  private val isOutput = !late.isEmpty

  /** True if the operator gets late rows. */
  val areProcessed: Boolean =
    task.lateMark.isDefined || !(isOutput || namesEventTime || usesEventTime)
  private val isLate = task.isLate.filterNot(_ => areProcessed).map(Predicate.create(_, task.columns)).orNull
  private lazy val mark = {
    val isLate = Coalesce(task.isLate.toSeq :+ Literal.FalseLiteral)
    UnsafeProjection.create(task.columns :+ isLate, task.columns)
  }

  /** True if the operator does not get late rows, and there may be some. */
  val skipsAny: Boolean = isLate != null

  /** Drops or puts out a row that is late; returns false for another one. */
  def skips(row: UnsafeRow): Boolean = {
    val late = isLate.eval(row)
    if (late && isOutput) {
      count(KeyedMetrics.LateRows)
      ready.addLate(row)
    } else if (late) count("numRowsDroppedByWatermark")
    late
  }

  /** Returns the row as the operator gets it, valid until the next one. */
  def marked(row: UnsafeRow): UnsafeRow =
    if (task.lateMark.isEmpty) row
    else {
      val result = mark(row)
      if (result.getBoolean(task.columns.size)) count(KeyedMetrics.LateRows)
      result
    }

  private def count(metric: String): Unit = task.metrics.get(metric).foreach(_ += 1)
}

/** Lays out the rows of a function and late rows as those of one output. Rows are valid until the next one. */
private final class LateOutput(task: KeyedTaskSpec) {
  import task.spec.{functionOutput, late, tags}

  private val columns = DataTypeUtils.toAttributes(functionOutput)
  private val main = if (tags.isEmpty) Literal(KeyedSpec.MainTag) +: columns else columns
  private val mainRow = UnsafeProjection.create(main :+ Literal(null, late.last.dataType), columns)
  private val lateRow = {
    val nulls = main.tail.map(column => Literal(null, column.dataType))
    UnsafeProjection.create(
      (Literal(late.last.name) +: nulls) :+ CreateStruct(task.columns),
      task.columns
    )
  }

  def ofFunction(row: InternalRow): UnsafeRow = mainRow(row)

  def ofInput(row: UnsafeRow): UnsafeRow = lateRow(row)
}
