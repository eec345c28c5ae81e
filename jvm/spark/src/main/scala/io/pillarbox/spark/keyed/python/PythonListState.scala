package io.pillarbox.spark.keyed.python

import java.nio.ByteBuffer

import io.pillarbox.spark.keyed.python.PythonState._
import io.pillarbox.spark.worker.Frame
import io.pillarbox.state.{ExpirySink, KeyedStateBackend, StateClock, TimestampedList}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._

/** A list. It is sent whole up to a size and asked for above it; a log of operations changes it. */
private final class PythonListState(
    declared: DeclaredState,
    state: TimestampedList[UnsafeRow],
    backend: KeyedStateBackend[UnsafeRow],
    arrow: StructType => Schema,
    project: StructType => UnsafeProjection
) extends PythonCollectionState(
      declared,
      state,
      schema("key" -> IntegerType, "value" -> declared.valueType, "ts" -> LongType),
      schema("key" -> IntegerType, "op" -> ByteType, "value" -> declared.valueType, "ts" -> LongType),
      arrow,
      backend,
      project
    ) {
  override def addCells(keyIndex: Int, index: Int): Long = {
    val elements = state.elements.take(InlineEntries + 1).toArray
    val isLarge = elements.length > InlineEntries
    note(isLarge)
    if (isLarge) 0L
    else {
      writeAll(index, elements.iterator)
      elements.foldLeft(0L)(_ + _.getSizeInBytes)
    }
  }

  override def answer(op: Int, asked: ByteBuffer): Answer = {
    val from = if (asked.hasRemaining) asked.getLong else TimestampedList.First
    val page = new Page
    val next = state.page(from) { (element, timestamp) =>
      write(0, element, sent(timestamp))
      page.takesMore(element.getSizeInBytes.toLong)
    }
    val place =
      if (next == TimestampedList.End) Answer.Nothing
      else Frame.buffer(java.lang.Long.BYTES).putLong(next).array
    Answer(writer.finishParts(), place)
  }

  private def writeAll(index: Int, elements: Iterator[UnsafeRow]): Unit =
    if (policy == null) elements.foreach(write(index, _, 0L))
    else
      elements.zip(state.timestamps).foreach { case (element, timestamp) =>
        write(index, element, sent(timestamp))
      }

  private def write(index: Int, element: UnsafeRow, timestamp: Long): Unit = {
    cell.update(0, index)
    cell.update(1, element)
    cell.update(2, timestamp)
    writeCell(element.getSizeInBytes.toLong)
  }

  override protected def change(row: InternalRow): Unit = {
    val timestamp = row.getLong(3)
    row.getByte(1) match {
      case PythonListState.Add => state.add(valueOf(row, 2), timestamp)
      case PythonListState.Clear => state.clear()
      case PythonListState.RemoveUpTo => read(upTo = timestamp, first = policy.start)
      case PythonListState.Raise => read(raiseTo = timestamp)
      case PythonListState.TimestampUnknown => read(first = timestamp)
      case other => throw new IllegalStateException(s"The worker sent an unknown list operation, $other")
    }
  }

  private def read(
      upTo: Long = StateClock.Unknown,
      raiseTo: Long = StateClock.Unknown,
      first: Long = StateClock.Unknown
  ): Unit = state.read(upTo, raiseTo, first, ExpirySink.None): Unit
}

private object PythonListState {
  final val Add: Byte = 0
  final val Clear: Byte = 1
  final val RemoveUpTo: Byte = 2
  final val Raise: Byte = 3
  final val TimestampUnknown: Byte = 4
}
