package io.pillarbox.metered.journal

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.CRC32C

/**
 * The bytes of a segment. All numbers are big-endian.
 *
 * {{{
 * segment  = "PBXCALLS" version:int entry*
 * entry    = length:int crc32c:int content     the checksum is over the content, length is the content's
 * content  = 1:byte operator | 2:byte answer
 * operator = a JSON object; the operator's id is the first 16 bytes of its SHA-256
 * answer   = operator's id:16 bytes  call:16 bytes  time:long, ms since 1970  attempts:int
 *            length:int, usage's  length:int, key's  usage  key  payload
 * usage    = { amount:double  length:int unit }*
 * }}}
 *
 * An operator stands before the first of its answers in a segment. A content of another kind is passed over.
 * Bytes behind the last whole entry were cut short when the writer died, and are ignored.
 */
private[journal] object SegmentFormat {
  val Magic: Array[Byte] = "PBXCALLS".getBytes("US-ASCII")
  final val Version = 3
  final val HeaderSize = 12

  /** The bytes before the content. */
  final val FrameSize = 8
  final val OperatorKind: Byte = 1
  final val AnswerKind: Byte = 2

  /** The bytes before the usage of an answer's content. */
  final val AnswerHead = 53
  private final val OperatorAt = 1
  private final val CallAt = 17
  private final val TimeAt = 33
  private final val AttemptsAt = 41
  private final val UsageLengthAt = 45
  private final val KeyLengthAt = 49

  /** The largest content; a larger length is no entry. */
  final val LargestContent: Int = 1 << 30

  private final val Suffix = ".calls"
  private final val Doomed = ".gone"
  private val Name = """(.+?)(?:\.(\d{1,9}))?(?:_(\d{1,18}))?\.calls""".r

  /** The number of lives of its answers after which a segment is deleted, from when it was written. */
  private final val Lives = 3

  /**
   * Makes a name that no other writer has, with the time for which the answers count; 0 for always. The
   * generation is 0 for a segment that is written to. From 1 on nobody writes to it any more, and it may have
   * answers of segments with lower ones.
   */
  def newName(ttlMs: Long, generation: Int = 0): String =
    nameOf(java.util.UUID.randomUUID.toString, generation, ttlMs)

  private def nameOf(unique: String, generation: Int, ttlMs: Long): String =
    unique + (if (generation > 0) s".$generation" else "") + (if (ttlMs > 0) s"_$ttlMs" else "") + Suffix

  /** The name that a segment has from when nobody writes to it any more; its own if it has that name. */
  def sealedName(name: String): String = name match {
    case Name(unique, null, ttlMs) => nameOf(unique, 1, if (ttlMs == null) 0L else ttlMs.toLong)
    case _ => name
  }

  /** The name of a segment whose copy is whole: it is to be deleted, and nobody reads it. */
  def doomedName(name: String): String = name + Doomed

  def isDoomed(name: String): Boolean = name.endsWith(Suffix + Doomed)

  def isName(name: String): Boolean = name.endsWith(Suffix) && !name.startsWith(".")

  /** The time for which the answers of a segment count; None for always. */
  def ttlOf(name: String): Option[Long] = name match {
    case Name(_, _, ttlMs) => Option(ttlMs).map(_.toLong)
    case _ => None
  }

  def generationOf(name: String): Int = name match {
    case Name(_, generation, _) if generation != null => generation.toInt
    case _ => 0
  }

  /**
   * True if nobody needs a segment: its last answer was written a life after its first at the latest. A third
   * life is for clocks that differ.
   */
  def isOver(file: JournalFile, nowMs: Long): Boolean =
    ttlOf(file.name).exists(ttlMs => (nowMs - file.writtenMs) / Lives >= ttlMs)

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
      val (usage, key) = (usageLength(bytes, at), keyLength(bytes, at))
      usage >= 0 && key >= 0 && usage.toLong + key <= length - AnswerHead
    }
  }

  def isOperator(bytes: ByteBuffer, at: Int): Boolean = bytes.get(at + FrameSize) == OperatorKind

  private def usageLength(bytes: ByteBuffer, answer: Int) = bytes.getInt(answer + FrameSize + UsageLengthAt)

  private def keyLength(bytes: ByteBuffer, answer: Int) = bytes.getInt(answer + FrameSize + KeyLengthAt)

  /** The id of the operator that an answer is for. */
  def operatorAt(bytes: ByteBuffer, answer: Int): CallKey =
    CallKey(
      bytes.getLong(answer + FrameSize + OperatorAt),
      bytes.getLong(answer + FrameSize + OperatorAt + 8)
    )

  /** The name of an answer's call, with the values of the key. */
  def callAt(bytes: ByteBuffer, answer: Int): CallKey = {
    val start = answer + FrameSize + AnswerHead + usageLength(bytes, answer)
    val values = java.util.Arrays.copyOfRange(bytes.array, start, start + keyLength(bytes, answer))
    CallKey(
      bytes.getLong(answer + FrameSize + CallAt),
      bytes.getLong(answer + FrameSize + CallAt + 8),
      values
    )
  }

  def attemptsAt(bytes: ByteBuffer, answer: Int): Int = bytes.getInt(answer + FrameSize + AttemptsAt)

  def usageAt(bytes: ByteBuffer, answer: Int): Seq[(String, Double)] = {
    val start = answer + FrameSize + AnswerHead
    val in = bytes.duplicate().position(start).limit(start + usageLength(bytes, answer))
    val found = Seq.newBuilder[(String, Double)]
    while (in.hasRemaining) {
      val amount = in.getDouble
      val unit = new Array[Byte](in.getInt)
      in.get(unit)
      found += new String(unit, UTF_8) -> amount
    }
    found.result()
  }

  def usageOf(usage: Seq[(String, Double)]): Array[Byte] = {
    val parts = usage.map { case (unit, amount) => (unit.getBytes(UTF_8), amount) }
    val bytes = ByteBuffer.allocate(parts.map(12 + _._1.length).sum)
    parts.foreach { case (unit, amount) => bytes.putDouble(amount).putInt(unit.length).put(unit) }
    bytes.array
  }

  /** The JSON of an operator's entry. */
  def descriptionAt(bytes: ByteBuffer, operator: Int): String =
    new String(bytes.array, operator + FrameSize + 1, bytes.getInt(operator) - 1, UTF_8)

  /** The key of an answer's call to its operator. */
  def keyAt(bytes: ByteBuffer, answer: Int): CallKey = {
    def long(at: Int) = bytes.getLong(answer + FrameSize + at)
    CallKey(long(CallAt) ^ long(OperatorAt), long(CallAt + 8) ^ long(OperatorAt + 8))
  }

  def timeAt(bytes: ByteBuffer, answer: Int): Long = bytes.getLong(answer + FrameSize + TimeAt)

  def payloadAt(bytes: ByteBuffer, answer: Int): Array[Byte] = {
    val content = answer + FrameSize
    val start = content + AnswerHead + usageLength(bytes, answer) + keyLength(bytes, answer)
    java.util.Arrays.copyOfRange(bytes.array, start, content + bytes.getInt(answer))
  }

  def entryOf(operator: JournalOperator): Array[Byte] = {
    val length = 1 + operator.json.length
    val entry = ByteBuffer.allocate(FrameSize + length).putInt(length).putInt(0)
    entry.put(OperatorKind).put(operator.json)
    entry.putInt(4, checksum(entry.array, FrameSize, length)).array
  }
}
