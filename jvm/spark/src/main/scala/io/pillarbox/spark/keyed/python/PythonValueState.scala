package io.pillarbox.spark.keyed.python

import io.pillarbox.spark.keyed.python.PythonState._
import io.pillarbox.spark.keyed.{InitialKind, InitialTarget}
import io.pillarbox.state.{KeyedStateBackend, TimestampedValue, ValueState}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types._

/** Values, and the accumulators of reducing and aggregating states. */
final private class PythonValueState(
    declared: DeclaredState,
    backend: KeyedStateBackend[UnsafeRow],
    arrow: StructType => Schema,
    clock: RawClock
) extends PythonState(
      declared,
      schema("value" -> declared.valueType, "ts" -> LongType),
      schema("key" -> IntegerType, "value" -> declared.valueType, "ts" -> LongType),
      arrow,
      clock
    ) {
  private val state: ValueState[UnsafeRow] = backend.getOrCreate(declared.valueDescriptor)
  private val stamps = state.asInstanceOf[TimestampedValue]

  override def addCells(index: Int): Long = {
    val value = state.value()
    write(value, if (value == null) 0L else sent(stamps.timestamp))
    if (value == null) 0L else value.getSizeInBytes.toLong
  }

  override def addNothing(index: Int): Unit = write(null, 0L)

  private def write(value: UnsafeRow, stamp: Long): Unit = {
    cell.update(0, value)
    cell.update(1, stamp)
    writer.write(cell)
  }

  override def initialTarget: InitialTarget =
    initialTarget(InitialKind.Value)((_, value) => state.update(value))

  override def clear(): Unit = state.clear()

  override protected def change(row: InternalRow): Unit =
    if (row.isNullAt(1)) state.clear()
    else {
      clock.writing(row.getLong(2))
      state.update(valueOf(row, 1))
    }
}
