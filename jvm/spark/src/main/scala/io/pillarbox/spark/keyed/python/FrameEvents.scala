package io.pillarbox.spark.keyed.python

import java.nio.ByteBuffer

import io.pillarbox.spark.python.{ArrowBatchWriter, Frame}
import io.pillarbox.timer.TimerKind
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** The events of the frame under construction, with the keys that they are of. Task thread only. */
final private class FrameEvents(keySchema: Schema, rowSchema: Schema) extends AutoCloseable {
  private val keyWriter = new ArrowBatchWriter(keySchema)
  private val rowWriter = new ArrowBatchWriter(rowSchema)
  private val frameKeys = new FrameKeys
  private var kinds = new Array[Byte](1024)
  private var keyIndexes = new Array[Int](1024)
  private var times = new Array[Long](1024)
  private var count = 0
  private var bytes = 0L

  def isEmpty: Boolean = count == 0 && keys == 0

  /** Whether a frame is worth sending: many events, or large rows. */
  def isFull: Boolean = count >= FrameEvents.MaxEvents || bytes >= FrameEvents.MaxBytes

  def keys: Int = frameKeys.size

  def key(slot: Int): UnsafeRow = frameKeys.key(slot)

  /** The hash of a key, as its serializer has it. */
  def keyHash(slot: Int): Int = frameKeys.hash(slot)

  /** The number of a key in the frame; a new one is copied. */
  def slotOf(key: UnsafeRow): Int = frameKeys.slotOf(key)

  def addRow(slot: Int, timestamp: Long, row: InternalRow, size: Int): Unit = {
    add(FrameEvents.Row, slot, timestamp)
    rowWriter.write(row)
    bytes += size
  }

  def addTimer(slot: Int, kind: TimerKind, timestamp: Long): Unit =
    add(FrameEvents.codeOf(kind), slot, timestamp)

  private def add(kind: Byte, slot: Int, time: Long): Unit = {
    if (count == kinds.length) grow()
    kinds(count) = kind
    keyIndexes(count) = slot
    times(count) = time
    count += 1
  }

  private def grow(): Unit = {
    kinds = java.util.Arrays.copyOf(kinds, count * 2)
    keyIndexes = java.util.Arrays.copyOf(keyIndexes, count * 2)
    times = java.util.Arrays.copyOf(times, count * 2)
  }

  /** The frame up to its rows. */
  def encode(id: Long, watermark: Long, processingTime: Long, flags: Int): Seq[ByteBuffer] = {
    val head = Frame.buffer(8 + 8 + 8 + 1 + 4 + 4 + 13 * count)
    head.putLong(id).putLong(watermark).putLong(processingTime).put(flags.toByte).putInt(keys).putInt(count)
    head.put(kinds, 0, count)
    head.asIntBuffer().put(keyIndexes, 0, count)
    head.position(head.position() + 4 * count)
    head.asLongBuffer().put(times, 0, count)
    head.position(head.position() + 8 * count)
    frameKeys.foreach(key => keyWriter.write(key))
    head
      .flip() +: (FrameEvents.blob(Seq(messageOf(keyWriter))) ++ FrameEvents.blob(Seq(messageOf(rowWriter))))
  }

  private def messageOf(writer: ArrowBatchWriter): ByteBuffer =
    if (writer.rows == 0) ByteBuffer.allocate(0) else writer.finish()

  /** Starts the next frame. */
  def clear(): Unit = {
    count = 0
    bytes = 0L
    frameKeys.clear()
  }

  override def close(): Unit = {
    keyWriter.close()
    rowWriter.close()
  }
}

private object FrameEvents {
  final val Row: Byte = 0
  final val EventTimer: Byte = 1
  final val ProcessingTimer: Byte = 2

  /** Events of a frame at most. */
  val MaxEvents = 32768

  /** Bytes of rows from which a frame is sent, however few. */
  val MaxBytes: Long = 32L << 20

  def codeOf(kind: TimerKind): Byte = kind match {
    case TimerKind.EventTime => EventTimer
    case TimerKind.ProcessingTime => ProcessingTimer
  }

  def kindOf(code: Byte): TimerKind =
    if (code == EventTimer) TimerKind.EventTime else TimerKind.ProcessingTime

  /** A blob of several parts. */
  def blob(parts: Seq[ByteBuffer]): Seq[ByteBuffer] =
    Frame.buffer(4).putInt(parts.map(_.remaining).sum).flip() +: parts
}
