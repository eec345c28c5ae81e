package io.pillarbox.async.journal

import java.nio.ByteBuffer
import java.util.zip.CRC32C

/**
 * The bytes of a segment. All numbers are big-endian.
 *
 * {{{
 * segment = "PBXCALLS" version:int record*
 * record  = length:int crc32c:int content          the checksum is over the content, length is the content's
 * content = key:16 bytes  time:long, ms since 1970  payload
 * }}}
 *
 * What follows the last whole record was cut short when its writer died, and is ignored.
 */
private[journal] object SegmentFormat {
  val Magic: Array[Byte] = "PBXCALLS".getBytes("US-ASCII")
  final val Version = 1
  final val HeaderSize = 12

  /** Before the content. */
  final val FrameSize = 8

  /** Before the payload. */
  final val ContentHead = 24

  /** Of a content; what says to be larger is no record. */
  final val LargestContent: Int = 1 << 30

  private final val Suffix = ".calls"

  /** A name that no other writer has. */
  def newName(): String = s"${java.util.UUID.randomUUID}$Suffix"

  def isName(name: String): Boolean = name.endsWith(Suffix) && !name.startsWith(".")

  def header: Array[Byte] = ByteBuffer.allocate(HeaderSize).put(Magic).putInt(Version).array

  def checksum(bytes: Array[Byte], offset: Int, length: Int): Int = {
    val crc = new CRC32C
    crc.update(bytes, offset, length)
    crc.getValue.toInt
  }

  /** Whether a whole record is at `at`, which `length` bytes of content follow. */
  def isRecord(bytes: ByteBuffer, at: Int, length: Int): Boolean =
    bytes.getInt(at) == length && bytes.getInt(at + 4) == checksum(bytes.array, at + FrameSize, length)

  def keyAt(bytes: ByteBuffer, record: Int): CallKey =
    CallKey(bytes.getLong(record + FrameSize), bytes.getLong(record + FrameSize + 8))

  def timeAt(bytes: ByteBuffer, record: Int): Long = bytes.getLong(record + FrameSize + 16)
}

/** Records on their way to a segment. One thread at a time. */
private[journal] final class RecordBuffer {
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
    if (start == null) null
    else {
      val content = start + FrameSize
      java.util.Arrays.copyOfRange(buffer.array, content + ContentHead, content + buffer.getInt(start))
    }
  }

  def size: Int = buffer.position()

  def bytes: Array[Byte] = buffer.array

  /** @throws IllegalArgumentException if the payload is too large for a record */
  def add(key: CallKey, timeMs: Long, payload: Array[Byte], length: Int): Unit = {
    require(length <= LargestContent - ContentHead, s"An answer of $length bytes is too large for a journal")
    val start = buffer.position()
    ensure(FrameSize + ContentHead + length)
    buffer.putInt(ContentHead + length).putInt(0).putLong(key.high).putLong(key.low).putLong(timeMs)
    buffer.put(payload, 0, length)
    buffer.putInt(start + 4, checksum(buffer.array, start + FrameSize, ContentHead + length))
    keys += key
    times += timeMs
    starts += start
    newest.put(key, start): Unit
  }

  /** Each record: its key, its time and where it begins. */
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
