package io.pillarbox.spark.keyed.python

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer

import io.pillarbox.spark.keyed.python.PythonState._
import io.pillarbox.spark.state.{InitialKind, InitialTarget}
import io.pillarbox.spark.worker.ArrowBatchReader
import io.pillarbox.state.{KeyedStateBackend, MapState, TimestampedMap}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._

/** Maps: sent whole up to a size, asked for entry by entry above it. */
final private class PythonMapState(
    declared: DeclaredState,
    backend: KeyedStateBackend[UnsafeRow],
    arrow: StructType => Schema,
    clock: RawClock
) extends PythonState(
      declared,
      schema(
        "key" -> IntegerType,
        "map_key" -> declared.keyType,
        "value" -> declared.valueType,
        "ts" -> LongType
      ),
      schema(
        "key" -> IntegerType,
        "op" -> ByteType,
        "map_key" -> declared.keyType,
        "value" -> declared.valueType,
        "ts" -> LongType
      ),
      arrow,
      clock
    ) {
  private val state: MapState[UnsafeRow, UnsafeRow] = backend.getOrCreate(declared.mapDescriptor)
  private val stamped = state.asInstanceOf[TimestampedMap[UnsafeRow, UnsafeRow]]
  private val flags = new ByteArrayOutputStream
  private val toKey = UnsafeProjection.create(declared.keyType)
  private val queries = new ArrowBatchReader(arrow(schema("key" -> declared.keyType)))

  override def addCells(slot: Int, index: Int): Long = {
    val entries = state.entries.take(InlineEntries + 1).toArray
    val isLarge = entries.length > InlineEntries
    flags.write(if (isLarge) 1 else 0)
    if (isLarge) 0L
    else
      entries.foldLeft(0L) { (bytes, entry) =>
        writeEntry(index, entry.getKey, entry.getValue)
        bytes + entry.getKey.getSizeInBytes + entry.getValue.getSizeInBytes
      }
  }

  override def addNothing(index: Int): Unit = flags.write(0)

  override def finishCells(): Seq[ByteBuffer] = {
    val perKey = ByteBuffer.wrap(flags.toByteArray)
    flags.reset()
    perKey +: writer.finishParts()
  }

  override def answer(op: Int, key: ByteBuffer): Seq[ByteBuffer] = {
    op match {
      case PythonMapState.All => state.entries.foreach(entry => writeEntry(0, entry.getKey, entry.getValue))
      case PythonMapState.One =>
        val wanted = keyOf(queries.read(key).getRow(0), 0)
        val value = state.get(wanted)
        if (value != null) writeEntry(0, wanted, value)
      case _ =>
        state.entries
          .take(InlineEntries)
          .toArray
          .foreach(entry => writeEntry(0, entry.getKey, entry.getValue))
    }
    message()
  }

  override def initialTarget: InitialTarget = initialTarget(InitialKind.Map)(state.put)

  override def clear(): Unit = state.clear()

  private def writeEntry(index: Int, key: UnsafeRow, value: UnsafeRow): Unit = {
    cell.update(0, index)
    cell.update(1, key)
    cell.update(2, value)
    cell.update(3, if (declared.ttl.isEmpty) 0L else stamped.timestampOf(key))
    writeCell(key.getSizeInBytes.toLong + value.getSizeInBytes)
  }

  private def keyOf(row: InternalRow, ordinal: Int): UnsafeRow =
    toKey(row.getStruct(ordinal, declared.keyType.length)).copy()

  override protected def change(row: InternalRow): Unit = row.getByte(1) match {
    case PythonMapState.Put => stamped.put(keyOf(row, 2), valueOf(row, 3), row.getLong(4))
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
