package io.pillarbox.spark.keyed.python

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer

import io.pillarbox.spark.keyed.python.PythonState._
import io.pillarbox.spark.state.{InitialKind, InitialTarget}
import io.pillarbox.state.{KeyedStateBackend, ListState, TimestampedList}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types._

/** Lists: sent whole up to a size, asked for above it, changed by a log of operations. */
final private class PythonListState(
    declared: DeclaredState,
    backend: KeyedStateBackend[UnsafeRow],
    arrow: StructType => Schema,
    clock: RawClock
) extends PythonState(
      declared,
      schema("key" -> IntegerType, "value" -> declared.valueType, "ts" -> LongType),
      schema("key" -> IntegerType, "op" -> ByteType, "value" -> declared.valueType, "ts" -> LongType),
      arrow,
      clock
    ) {
  private val state: ListState[UnsafeRow] = backend.getOrCreate(declared.listDescriptor)
  private val stamped = state.asInstanceOf[TimestampedList[UnsafeRow]]
  private val flags = new ByteArrayOutputStream
  private val ttlMs = declared.ttl.fold(0L)(_.ttl)

  override def addCells(slot: Int, index: Int): Long = {
    val elements = state.get().take(InlineEntries + 1).toArray
    val isLarge = elements.length > InlineEntries
    flags.write(if (isLarge) 1 else 0)
    if (isLarge) 0L
    else {
      writeAll(index, elements.iterator)
      elements.foldLeft(0L)(_ + _.getSizeInBytes)
    }
  }

  override def addNothing(index: Int): Unit = flags.write(0)

  override def finishCells(): Seq[ByteBuffer] = {
    val perKey = ByteBuffer.wrap(flags.toByteArray)
    flags.reset()
    perKey +: writer.finishParts()
  }

  override def answer(op: Int, key: ByteBuffer): Seq[ByteBuffer] = {
    writeAll(0, state.get())
    message()
  }

  override def initialTarget: InitialTarget =
    initialTarget(InitialKind.List)((_, element) => state.add(element))

  override def clear(): Unit = state.clear()

  private def writeAll(index: Int, elements: Iterator[UnsafeRow]): Unit =
    if (declared.ttl.isEmpty) elements.foreach(write(index, _, 0L))
    else
      elements.zip(stamped.timestamps).foreach { case (element, stamp) =>
        write(index, element, stamp)
      }

  private def write(index: Int, element: UnsafeRow, stamp: Long): Unit = {
    cell.update(0, index)
    cell.update(1, element)
    cell.update(2, stamp)
    writeCell(element.getSizeInBytes.toLong)
  }

  override protected def change(row: InternalRow): Unit = {
    val stamp = row.getLong(3)
    row.getByte(1) match {
      case PythonListState.Add => stamped.add(valueOf(row, 2), stamp)
      case PythonListState.Clear => state.clear()
      case PythonListState.RemoveUpTo => touch(clock.expiring(stamp, ttlMs))
      case PythonListState.Raise => touch(clock.raising(stamp))
      case PythonListState.StampUnknown => touch(clock.meeting(stamp))
      case other => throw new IllegalStateException(s"The worker sent an unknown list operation, $other")
    }
  }

  /** Reading under a given clock removes what is expired by it, and stamps the rest. */
  private def touch(setClock: => Unit): Unit = {
    setClock
    try state.get().foreach(_ => ())
    finally clock.restore()
  }
}

private object PythonListState {
  final val Add: Byte = 0
  final val Clear: Byte = 1
  final val RemoveUpTo: Byte = 2
  final val Raise: Byte = 3
  final val StampUnknown: Byte = 4
}
