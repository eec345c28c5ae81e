package io.pillarbox.spark.keyed.python

import java.nio.ByteBuffer

import io.pillarbox.api.TimeDomain
import io.pillarbox.spark.worker.{
  ArrowBatchWriter,
  Frame,
  FrameSize,
  PythonTaskFailure,
  PythonWorkerException
}
import org.apache.arrow.vector.types.pojo.Schema
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * The events of the frame under construction, and the keys that the worker holds: those of this frame, and of
 * frames before it since [[clear]]. Task thread only.
 *
 * @param sendAhead
 *   takes rows that come before those of the frame, as an Arrow batch that is valid until it returns
 * @param refused the error to throw for a row or key that is too large
 */
private final class FrameEvents(
    keySchema: Schema,
    rowSchema: Schema,
    limits: FrameLimits,
    sendAhead: Seq[ByteBuffer] => Unit,
    refused: PythonTaskFailure => Throwable
) extends AutoCloseable {
  private val keyWriter = new ArrowBatchWriter(keySchema)
  private val rowWriter = new ArrowBatchWriter(rowSchema)
  private val frameKeys = new FrameKeys
  private var kinds = new Array[Byte](1024)
  private var keyIndexes = new Array[Int](1024)
  private var times = new Array[Long](1024)
  private var count = 0

  /** The number of the last events, all rows whose keys are words, whose keys have no numbers yet. */
  private var unsettled = 0
  private val unsettledKeys = new Array[Long](FrameEvents.MaxUnsettled)
  private var sentEvents = 0
  private var sentKeys = 0
  private var bytes = 0L

  /** The timers of the frame's keys that are not among the events. */
  private var listedTimers = List.empty[(Int, Byte, Long)]

  /** The number of the frame's rows that were sent ahead. */
  private var rowsAhead = 0

  def isEmpty: Boolean = count == 0 && keys == 0

  /** True if no event is in the frame yet. */
  def isStarting: Boolean = count == 0

  /** True if a frame is worth sending: many events or keys, or large ones. */
  def isFull: Boolean = count >= limits.events || rowsAhead + rowWriter.rows >= limits.rows || isHeldFull

  /** True if the worker holds so much that it should give the state back. */
  def isHeldFull: Boolean =
    bytes >= FrameLimits.MaxBytes || keys >= limits.keys || sentEvents + count >= limits.heldEvents

  /** The number of keys that the worker holds, or will with this frame, without those of unsettled rows. */
  def keys: Int = frameKeys.size

  /** The number of the frame's first new key. */
  def firstKey: Int = sentKeys

  def key(keyIndex: Int): UnsafeRow = frameKeys.key(keyIndex)

  /** The hash of a key, as its serializer computes it. */
  def keyHash(keyIndex: Int): Int = frameKeys.hash(keyIndex)

  /** Returns the number of a key in the frame; a new one is copied. */
  def indexOf(key: UnsafeRow): Int = {
    settle()
    frameKeys.indexOf(key)
  }

  def addRow(keyIndex: Int, timestamp: Long, row: InternalRow, size: Int): Unit = {
    add(FrameEvents.Row, keyIndex, timestamp)
    rowWriter.writeBounded(row, size.toLong, ahead)(tooLarge)
    bytes += size
  }

  private val tooLarge: (Long, FrameSize) => Throwable = (bytes, size) =>
    refused(new PythonWorkerException(size.refusal(FrameSize.RowTooLarge, bytes)))

  private val ahead: (Int, Seq[ByteBuffer]) => Unit = (rows, parts) => {
    rowsAhead += rows
    sendAhead(parts)
  }

  /** Adds a row whose key is one column of eight bytes. Such keys get their numbers later, together. */
  def addUnsettled(key: Long, timestamp: Long, row: InternalRow, size: Int): Unit = {
    unsettledKeys(unsettled) = key
    addRow(0, timestamp, row, size)
    unsettled += 1
    if (unsettled == FrameEvents.MaxUnsettled) settle()
  }

  /** Finds the numbers of the keys of all rows. */
  def settle(): Unit = if (unsettled > 0) {
    frameKeys.indexesOf(unsettledKeys, unsettled, keyIndexes, count - unsettled)
    unsettled = 0
  }

  /** The number of the key of an event, by its place in the frame. After `settle`. */
  def keyIndexOf(event: Int): Int = keyIndexes(event)

  /** Counts bytes that the worker has to hold besides. */
  def addBytes(size: Long): Unit = bytes += size

  def addTimer(keyIndex: Int, kind: TimeDomain, timestamp: Long): Unit =
    add(FrameEvents.codeOf(kind), keyIndex, timestamp)

  /** Adds a timer that a key has, and that is not due. */
  def listTimer(keyIndex: Int, kind: TimeDomain, timestamp: Long): Unit =
    listedTimers ::= ((keyIndex, FrameEvents.codeOf(kind), timestamp))

  private def add(kind: Byte, keyIndex: Int, time: Long): Unit = {
    if (count == kinds.length) grow()
    kinds(count) = kind
    keyIndexes(count) = keyIndex
    times(count) = time
    count += 1
  }

  private def grow(): Unit = {
    kinds = java.util.Arrays.copyOf(kinds, count * 2)
    keyIndexes = java.util.Arrays.copyOf(keyIndexes, count * 2)
    times = java.util.Arrays.copyOf(times, count * 2)
  }

  /** Returns the frame up to its rows, which are settled. The buffers are valid until the next event. */
  def encode(
      id: Long,
      reached: Long,
      horizon: Long,
      processingTime: Long,
      flags: Int,
      endedKeys: Int
  ): Seq[ByteBuffer] = {
    val head = Frame.buffer(8 + 8 + 8 + 8 + 1 + 4 + 4 + 4 + 4 + 13 * count)
    head.putLong(id).putLong(reached).putLong(horizon).putLong(processingTime).put(flags.toByte)
    head.putInt(sentKeys).putInt(keys - sentKeys).putInt(endedKeys).putInt(count)
    head.put(kinds, 0, count)
    head.asIntBuffer().put(keyIndexes, 0, count)
    head.position(head.position() + 4 * count)
    head.asLongBuffer().put(times, 0, count)
    head.position(head.position() + 8 * count)
    frameKeys.foreachFrom(sentKeys) { key =>
      val found = keyWriter.write(key, key.getSizeInBytes.toLong)
      if (found > 0) throw tooLarge(found, FrameSize.of(TaskContext.get()))
    }
    rowsAhead = 0
    head.flip() +: (FrameEvents.blob(keyWriter.finishParts()) ++ FrameEvents.blob(rowWriter.finishParts()))
  }

  /** Returns the timers that the keys have. */
  def listed: Seq[ByteBuffer] = {
    val bytes = Frame.buffer(4 + 13 * listedTimers.size).putInt(listedTimers.size)
    listedTimers.foreach { case (keyIndex, _, _) => bytes.putInt(keyIndex) }
    listedTimers.foreach { case (_, kind, _) => bytes.put(kind) }
    listedTimers.foreach { case (_, _, time) => bytes.putLong(time) }
    Seq(bytes.flip())
  }

  /** Starts the next frame; the worker holds the keys. */
  def nextFrame(): Unit = {
    sentEvents += count
    sentKeys = keys
    count = 0
  }

  /** Starts the next frame; the worker holds nothing any more. */
  def clear(): Unit = {
    count = 0
    unsettled = 0
    sentEvents = 0
    sentKeys = 0
    bytes = 0L
    listedTimers = Nil
    frameKeys.clear()
  }

  override def close(): Unit = {
    keyWriter.close()
    rowWriter.close()
  }
}

/**
 * The limits of a frame, and of the state that the worker holds before it gives changed state back.
 *
 * @param events events of a frame at most
 * @param rows rows of a frame at most
 * @param heldEvents events of the frames that keep the same keys, at most
 * @param keys keys whose state the worker holds, at most
 */
private final case class FrameLimits(events: Int, heldEvents: Int, keys: Int, rows: Int = Int.MaxValue)

private object FrameLimits {

  /** The bytes of rows, keys and state from which they are sent, however few. */
  val MaxBytes: Long = 32L << 20

  /** A row becomes Python objects, so frames are small. Values are as cheap to send again as to hold. */
  private val Rows = FrameLimits(events = 1 << 15, heldEvents = 1 << 15, keys = 1 << 15)

  /** A list or map has to be read from the backend entry by entry, so the worker should hold it. */
  private val RowsWithCollections = Rows.copy(heldEvents = 1 << 18, keys = 1 << 17)

  /** Columns take no more than their bytes, and in larger frames a key comes with its state less often. */
  private def columns(rows: Int) = FrameLimits(events = rows, heldEvents = rows, keys = rows)

  /** @param maxRows rows of a frame at most, 0 for no limit but that of events */
  def of(form: String, states: Seq[DeclaredState], maxRows: Int): FrameLimits = {
    val most = if (maxRows > 0) maxRows else Int.MaxValue
    // The worker holds nothing of the column form from frame to frame.
    if (form == "arrow") columns(math.min(most, 1 << 19))
    else if (states.exists(isCollection)) RowsWithCollections.copy(rows = most)
    else Rows.copy(rows = most)
  }

  private def isCollection(state: DeclaredState): Boolean = state.kind == "list" || state.kind == "map"
}

private object FrameEvents {

  /** The number of keys whose numbers are found at once: with them 16 KiB, at most half of the L1 cache. */
  private final val MaxUnsettled = 1024
  final val Row: Byte = 0
  final val EventTimer: Byte = 1
  final val ProcessingTimer: Byte = 2

  def codeOf(kind: TimeDomain): Byte = kind match {
    case TimeDomain.EVENT_TIME => EventTimer
    case TimeDomain.PROCESSING_TIME => ProcessingTimer
  }

  def kindOf(code: Byte): TimeDomain =
    if (code == EventTimer) TimeDomain.EVENT_TIME else TimeDomain.PROCESSING_TIME

  /** Puts the length of several parts before them. */
  def blob(parts: Seq[ByteBuffer]): Seq[ByteBuffer] =
    Frame.buffer(4).putInt(parts.map(_.remaining).sum).flip() +: parts
}
