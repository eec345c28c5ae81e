package io.pillarbox.metered.journal

import java.nio.ByteBuffer

/** Answers of one operator on their way to a segment. One thread at a time. */
private[journal] final class RecordBuffer(val operator: JournalOperator) {
  import SegmentFormat._

  private var buffer = ByteBuffer.allocate(RecordBuffer.FirstSize)
  private val keys = scala.collection.mutable.ArrayBuffer.empty[CallKey]
  private val times = scala.collection.mutable.ArrayBuffer.empty[Long]
  private val starts = scala.collection.mutable.ArrayBuffer.empty[Int]

  private val newest = new java.util.HashMap[CallKey, Integer]

  def isEmpty: Boolean = keys.isEmpty

  /** The payload that was added last for the key, or null. */
  def payload(key: CallKey): Array[Byte] = {
    val start = newest.get(key)
    if (start == null) null else payloadOf(start)
  }

  /** The payload of the record that starts at `start`. */
  def payloadOf(start: Int): Array[Byte] = payloadAt(buffer, start)

  def size: Int = buffer.position()

  def bytes: Array[Byte] = buffer.array

  /** @throws IllegalArgumentException if usage, key and payload are too large for a record */
  def add(key: CallKey, timeMs: Long, cost: CallCost, payload: Array[Byte], length: Int): Unit = {
    val usage = if (cost.usage.isEmpty) RecordBuffer.Nothing else usageOf(cost.usage)
    val content = AnswerHead.toLong + usage.length + key.values.length + length
    require(content <= LargestContent, s"A key and an answer of $content bytes are too large for a journal")
    val start = buffer.position()
    ensure(FrameSize + content.toInt)
    buffer.putInt(content.toInt).putInt(0)
    buffer.put(AnswerKind).putLong(operator.high).putLong(operator.low).putLong(key.high).putLong(key.low)
    buffer.putLong(timeMs).putInt(cost.attempts).putInt(usage.length).putInt(key.values.length)
    buffer.put(usage).put(key.values).put(payload, 0, length)
    buffer.putInt(start + 4, checksum(buffer.array, start + FrameSize, content.toInt))
    keys += key.of(operator)
    times += timeMs
    starts += start
    newest.put(key, start): Unit
  }

  /** Visits each record: its key for the operator, its time and its start. */
  def foreach(visit: (CallKey, Long, Int) => Unit): Unit = {
    var i = 0
    while (i < keys.size) {
      visit(keys(i), times(i), starts(i))
      i += 1
    }
  }

  def clear(): Unit = {
    if (buffer.capacity > RecordBuffer.LargestKept) buffer = ByteBuffer.allocate(RecordBuffer.FirstSize)
    buffer.clear()
    keys.clear()
    times.clear()
    starts.clear()
    newest.clear()
  }

  private def ensure(more: Int): Unit = if (buffer.remaining < more) {
    val wanted = math.max(buffer.position().toLong + more, 2L * buffer.capacity)
    val larger = ByteBuffer.allocate(math.min(wanted, Int.MaxValue - 8L).toInt)
    buffer = larger.put(buffer.flip())
  }
}

private object RecordBuffer {
  private val Nothing = Array.emptyByteArray
  private final val FirstSize = 1 << 14
  private final val LargestKept = 1 << 20
}
