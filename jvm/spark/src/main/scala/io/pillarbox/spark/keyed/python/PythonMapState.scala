package io.pillarbox.spark.keyed.python

import java.nio.ByteBuffer

import io.pillarbox.spark.keyed.python.PythonState._
import io.pillarbox.spark.worker.ArrowBatchReader
import io.pillarbox.state.{KeyedStateBackend, TimestampedMap}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._

/** A map. It is sent whole up to a size and asked for entry by entry above it. */
private final class PythonMapState(
    declared: DeclaredState,
    state: TimestampedMap[UnsafeRow, UnsafeRow],
    backend: KeyedStateBackend[UnsafeRow],
    arrow: StructType => Schema,
    project: StructType => UnsafeProjection
) extends PythonCollectionState(
      declared,
      state,
      schema(
        "key" -> IntegerType,
        "map_key" -> declared.mapKey,
        "value" -> declared.valueType,
        "ts" -> LongType
      ),
      schema(
        "key" -> IntegerType,
        "op" -> ByteType,
        "map_key" -> declared.mapKey,
        "value" -> declared.valueType,
        "ts" -> LongType
      ),
      arrow,
      backend,
      project
    ) {
  private val toKey = project(declared.mapKey)
  private val queries = new ArrowBatchReader(arrow(schema("key" -> declared.mapKey)))

  override def addCells(keyIndex: Int, index: Int): Long = {
    val found = entries(InlineEntries + 1)
    val isLarge = found.length > InlineEntries
    note(isLarge)
    if (isLarge) 0L
    else
      found.foldLeft(0L) { case (bytes, (key, value, timestamp)) =>
        writeEntry(index, key, value, timestamp)
        bytes + key.getSizeInBytes + value.getSizeInBytes
      }
  }

  /** Returns some of the current key's entries, with the timestamps that are sent. */
  private def entries(most: Int): Array[(UnsafeRow, UnsafeRow, Long)] = {
    val cursor = state.cursor(few = false)
    Iterator
      .continually(cursor)
      .take(most)
      .takeWhile(_.next())
      .map(at => (at.key, at.value, sent(at.timestamp)))
      .toArray
  }

  override def answer(op: Int, asked: ByteBuffer): Answer = {
    var next = Answer.Nothing
    op match {
      case PythonMapState.All => next = writePage(asked)
      case PythonMapState.One =>
        val wanted = keyOf(queries.read(asked).getRow(0), 0)
        val value = state.get(wanted)
        if (value != null) writeEntry(0, wanted, value, sent(state.timestamp))
      case _ =>
        entries(InlineEntries).foreach { case (key, value, timestamp) =>
          writeEntry(0, key, value, timestamp)
        }
    }
    Answer(writer.finishParts(), next)
  }

  /** Returns the place behind the page, or nothing behind the last one. */
  private def writePage(asked: ByteBuffer): Array[Byte] = {
    val cursor = if (asked.hasRemaining) state.cursorBehind(bytesOf(asked)) else state.cursor(few = false)
    val page = new Page
    var more = true
    while (more && cursor.next()) {
      val (key, value) = (cursor.key, cursor.value)
      writeEntry(0, key, value, sent(cursor.timestamp))
      more = page.takesMore(key.getSizeInBytes.toLong + value.getSizeInBytes)
    }
    if (more) Answer.Nothing else cursor.place
  }

  private def bytesOf(asked: ByteBuffer): Array[Byte] = {
    val bytes = new Array[Byte](asked.remaining)
    asked.get(bytes)
    bytes
  }

  private def writeEntry(index: Int, key: UnsafeRow, value: UnsafeRow, timestamp: Long): Unit = {
    cell.update(0, index)
    cell.update(1, key)
    cell.update(2, value)
    cell.update(3, timestamp)
    writeCell(key.getSizeInBytes.toLong + value.getSizeInBytes)
  }

  private def keyOf(row: InternalRow, ordinal: Int): UnsafeRow =
    toKey(row.getStruct(ordinal, declared.mapKey.length)).copy()

  override protected def change(row: InternalRow): Unit = row.getByte(1) match {
    case PythonMapState.Put => state.put(keyOf(row, 2), valueOf(row, 3), row.getLong(4))
    case PythonMapState.Remove => state.remove(keyOf(row, 2))
    case PythonMapState.Clear => state.clear()
    case other => throw new IllegalStateException(s"The worker sent an unknown map operation, $other")
  }

  override def close(): Unit = {
    queries.close()
    super.close()
  }
}

private object PythonMapState {
  final val Put: Byte = 0
  final val Remove: Byte = 1
  final val Clear: Byte = 2
  final val All = 0
  final val One = 1
}
