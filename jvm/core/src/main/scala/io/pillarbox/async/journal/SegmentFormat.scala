package io.pillarbox.async.journal

import java.nio.ByteBuffer
import java.util.zip.CRC32C

/**
 * The bytes of a segment. All numbers are big-endian.
 *
 * {{{
 * segment  = "PBXCALLS" version:int entry*
 * entry    = length:int crc32c:int content     the checksum is over the content, length is the content's
 * content  = 1:byte operator | 2:byte answer
 * operator = a JSON object; the operator's id is the first 16 bytes of its SHA-256
 * answer   = operator's id:16 bytes  call:16 bytes  time:long, ms since 1970  length:int key  payload
 * }}}
 *
 * An operator stands before the first of its answers in a segment. A content of another kind is passed over.
 * Bytes behind the last whole entry were cut short when the writer died, and are ignored.
 */
private[journal] object SegmentFormat {
  val Magic: Array[Byte] = "PBXCALLS".getBytes("US-ASCII")
  final val Version = 2
  final val HeaderSize = 12

  /** The bytes before the content. */
  final val FrameSize = 8
  final val OperatorKind: Byte = 1
  final val AnswerKind: Byte = 2

  /** The bytes before the key of an answer's content. */
  final val AnswerHead = 45
  private final val OperatorAt = 1
  private final val CallAt = 17
  private final val TimeAt = 33
  private final val KeyLengthAt = 41

  /** The largest content; a larger length is no entry. */
  final val LargestContent: Int = 1 << 30

  private final val Suffix = ".calls"

  /** Makes a name that no other writer has, with the time for which the answers count; 0 for always. */
  def newName(ttlMs: Long): String =
    s"${java.util.UUID.randomUUID}${if (ttlMs > 0) s"_$ttlMs" else ""}$Suffix"

  def isName(name: String): Boolean = name.endsWith(Suffix) && !name.startsWith(".")

  /** The time for which the answers of a segment count; None for always. */
  def ttlOf(name: String): Option[Long] =
    name.stripSuffix(Suffix).split('_').drop(1).headOption.flatMap(_.toLongOption)

  def header: Array[Byte] = ByteBuffer.allocate(HeaderSize).put(Magic).putInt(Version).array

  def checksum(bytes: Array[Byte], offset: Int, length: Int): Int = {
    val crc = new CRC32C
    crc.update(bytes, offset, length)
    crc.getValue.toInt
  }

  /** True if a whole entry is at `at`, which `length` bytes of content follow. */
  def isEntry(bytes: ByteBuffer, at: Int, length: Int): Boolean =
    bytes.getInt(at) == length && bytes.getInt(at + 4) == checksum(bytes.array, at + FrameSize, length)

  /** True if the whole entry at `at` is an answer. */
  def isAnswer(bytes: ByteBuffer, at: Int): Boolean = {
    val length = bytes.getInt(at)
    bytes.get(at + FrameSize) == AnswerKind && length >= AnswerHead && {
      val keyLength = bytes.getInt(at + FrameSize + KeyLengthAt)
      keyLength >= 0 && keyLength <= length - AnswerHead
    }
  }

  /** The key of an answer's call to its operator. */
  def keyAt(bytes: ByteBuffer, answer: Int): CallKey = {
    def long(at: Int) = bytes.getLong(answer + FrameSize + at)
    CallKey(long(CallAt) ^ long(OperatorAt), long(CallAt + 8) ^ long(OperatorAt + 8))
  }

  def timeAt(bytes: ByteBuffer, answer: Int): Long = bytes.getLong(answer + FrameSize + TimeAt)

  def payloadAt(bytes: ByteBuffer, answer: Int): Array[Byte] = {
    val content = answer + FrameSize
    val start = content + AnswerHead + bytes.getInt(content + KeyLengthAt)
    java.util.Arrays.copyOfRange(bytes.array, start, content + bytes.getInt(answer))
  }

  def entryOf(operator: JournalOperator): Array[Byte] = {
    val length = 1 + operator.json.length
    val entry = ByteBuffer.allocate(FrameSize + length).putInt(length).putInt(0)
    entry.put(OperatorKind).put(operator.json)
    entry.putInt(4, checksum(entry.array, FrameSize, length)).array
  }
}

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
    if (start == null) null else payloadAt(buffer, start)
  }

  def size: Int = buffer.position()

  def bytes: Array[Byte] = buffer.array

  /** @throws IllegalArgumentException if key and payload are too large for a record */
  def add(key: CallKey, timeMs: Long, payload: Array[Byte], length: Int): Unit = {
    val content = AnswerHead.toLong + key.values.length + length
    require(content <= LargestContent, s"A key and an answer of $content bytes are too large for a journal")
    val start = buffer.position()
    ensure(FrameSize + content.toInt)
    buffer.putInt(content.toInt).putInt(0)
    buffer.put(AnswerKind).putLong(operator.high).putLong(operator.low).putLong(key.high).putLong(key.low)
    buffer.putLong(timeMs).putInt(key.values.length).put(key.values).put(payload, 0, length)
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
  private final val FirstSize = 1 << 14
  private final val LargestKept = 1 << 20
}
