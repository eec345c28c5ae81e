package io.pillarbox.spark.keyed.python

import java.util

import io.pillarbox.spark.keyed.python.PythonState._
import io.pillarbox.state.{AddressedValue, KeyedStateBackend, TimestampedValue}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._

/** A value, or the accumulator of a reducing or aggregating state. */
private final class PythonValueState(
    declared: DeclaredState,
    state: TimestampedValue[UnsafeRow],
    backend: KeyedStateBackend[UnsafeRow],
    arrow: StructType => Schema,
    project: StructType => UnsafeProjection
) extends PythonState(
      declared,
      state,
      schema("value" -> declared.valueType, "ts" -> LongType),
      schema("key" -> IntegerType, "value" -> declared.valueType, "ts" -> LongType),
      arrow,
      backend,
      project
    ) {

  private val addressed = state match {
    case state: AddressedValue => state
    case _ => null
  }

  /** The address of the value of each key that the worker has. */
  private var addresses = new Array[Int](if (addressed == null) 0 else 1024)

  override def addCells(keyIndex: Int, index: Int): Long = {
    val value = state.value()
    if (addressed != null) noteAddress(keyIndex)
    write(value, if (value == null) 0L else sent(state.timestamp))
    if (value == null) 0L else value.getSizeInBytes.toLong
  }

  private def noteAddress(keyIndex: Int): Unit = {
    if (keyIndex >= addresses.length) addresses = util.Arrays.copyOf(addresses, 2 * keyIndex)
    addresses(keyIndex) = addressed.address
  }

  override def addNothing(index: Int): Unit = write(null, 0L)

  private def write(value: UnsafeRow, timestamp: Long): Unit = {
    cell.update(0, value)
    cell.update(1, timestamp)
    writeCell(if (value == null) 0L else value.getSizeInBytes.toLong)
  }

  override protected def change(row: InternalRow): Unit = {
    if (addressed != null && row.getInt(0) < addresses.length) addressed.expectAt(addresses(row.getInt(0)))
    if (row.isNullAt(1)) state.clear()
    else state.put(valueOf(row, 1), row.getLong(2))
  }
}
