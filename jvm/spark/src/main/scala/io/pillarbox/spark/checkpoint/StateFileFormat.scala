package io.pillarbox.spark.checkpoint

import java.io._
import java.util.zip.{CRC32C, CheckedInputStream, CheckedOutputStream}

import io.pillarbox.state.StateRestoreException

/**
 * The container of state and timers in one file:
 * {{{
 * magic (8 bytes), format version: u16, id: utf, base id: utf (empty: none),
 *   time of the next event-time timer: i64, of the next processing-time timer: i64, entries of state: i64
 * state:  chunks of length: i32 (> 0) and bytes, ended by length 0
 * timers: the same
 * crc-32c of all before: i32
 * }}}
 * The contents have their own checksums; this one covers that they belong together and are complete.
 */
private[pillarbox] object StateFileFormat {
  private val Magic = 0x50424f5853544154L
  final val Version = 1
  private val ChunkSize = 64 << 10

  /**
   * The header of a file, which names its writer.
   *
   * @param id the id of the commit; a snapshot has that of the commit it was taken after
   * @param base the id of the commit that a delta follows; None for the first one and for snapshots
   * @param due
   *   the times of the partition's next timers, so that a restarted query knows them without loading state
   * @param entries the number of entries of the state, for metrics
   */
  final case class Header(
      id: String,
      base: Option[String],
      due: DueTimes = DueTimes.Never,
      entries: Long = 0
  )

  /** Writes a file. The stream is flushed, not closed. */
  def write(out: OutputStream, header: Header)(
      state: OutputStream => Unit
  )(timers: OutputStream => Unit): Unit = {
    val checked = new CheckedOutputStream(out, new CRC32C)
    val data = new DataOutputStream(checked)
    data.writeLong(Magic)
    data.writeShort(Version)
    data.writeUTF(header.id)
    data.writeUTF(header.base.getOrElse(""))
    data.writeLong(header.due.eventTime)
    data.writeLong(header.due.processingTime)
    data.writeLong(header.entries)
    Seq(state, timers).foreach { content =>
      val section = new BufferedOutputStream(new Chunks(data), ChunkSize)
      content(section)
      section.flush()
      data.writeInt(0)
    }
    data.writeInt(checked.getChecksum.getValue.toInt)
    data.flush()
  }

  /**
   * Reads a file and passes its two parts on, each valid during the call only.
   *
   * @param source names the file in errors
   * @throws io.pillarbox.state.StateException
   *   if the file is damaged, cut short or of a newer format; parts that were passed on must not be used then
   */
  def read(
      in: InputStream,
      source: String
  )(state: InputStream => Unit)(timers: InputStream => Unit): Header = {
    val reader = new Reader(in, source)
    Seq(state, timers).foreach(content => reader.nextSection(content))
    reader.checkEnd()
    reader.header
  }

  /**
   * Reads a file piece by piece: its two parts in turn, then [[checkEnd]], before which nothing of it is
   * certain. The caller closes the stream. Errors are those of [[read]].
   */
  final class Reader(in: InputStream, source: String) {
    private val checked = new CheckedInputStream(new BufferedInputStream(in, ChunkSize), new CRC32C)
    private val data = new DataInputStream(checked)
    private var section: Section = _
    private var before = 0L

    /** The bytes of the parts so far. */
    def bytes: Long = before + (if (section == null) 0L else section.bytes)

    val header: Header = readHeader(data, source)

    /** Returns the next part, and skips the rest of the one before. */
    def nextSection(): InputStream = orCut {
      if (section != null) section.skipRest()
      before = bytes
      section = new Section(data, source)
      new BufferedInputStream(section, ChunkSize)
    }

    def nextSection(content: InputStream => Unit): Unit = {
      val part = nextSection()
      orCut(content(part))
    }

    /** Compares the checksum. After the last part. */
    def checkEnd(): Unit = orCut {
      section.skipRest()
      val computed = checked.getChecksum.getValue.toInt
      val stored = data.readInt()
      if (computed != stored)
        throw damaged(source, f"its checksum is $computed%08x and should be $stored%08x")
    }

    /** Runs a read of the file, whose early end is damage. */
    def orCut[A](read: => A): A =
      try read
      catch { case cut: EOFException => throw damaged(source, "it ends too early", cut) }
  }

  def readHeader(in: InputStream, source: String): Header = {
    val data = new DataInputStream(in)
    try {
      if (data.readLong() != Magic) throw damaged(source, "it is no file of state")
      val version = data.readUnsignedShort()
      if (version != Version) throw StateRestoreException.otherFormat(source, version, Version)
      Header(
        data.readUTF(),
        Some(data.readUTF()).filter(_.nonEmpty),
        DueTimes(data.readLong(), data.readLong()),
        data.readLong()
      )
    } catch {
      case cut: EOFException => throw damaged(source, "it ends too early", cut)
      case garbled: UTFDataFormatException => throw damaged(source, "its header can't be read", garbled)
    }
  }

  /** The error of a file that is damaged, as `what` says. */
  private[checkpoint] def damaged(source: String, what: String, cause: Throwable = null) =
    new StateRestoreException(
      "STATE_FILE_CORRUPT",
      s"$source is damaged: $what. Restore the checkpoint from a backup, or start the query with a new one",
      cause
    )

  private final class Chunks(out: DataOutputStream) extends OutputStream {
    override def write(byte: Int): Unit = write(Array(byte.toByte), 0, 1)
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = if (length > 0) {
      out.writeInt(length)
      out.write(bytes, offset, length)
    }
  }

  private final class Section(in: DataInputStream, source: String) extends InputStream {
    private var left = 0
    private var ended = false
    var bytes = 0L

    override def read(): Int = {
      val one = new Array[Byte](1)
      if (read(one, 0, 1) < 0) -1 else one(0) & 0xff
    }

    override def read(bytes: Array[Byte], offset: Int, length: Int): Int =
      if (!more()) -1
      else {
        val count = in.read(bytes, offset, math.min(length, left))
        if (count < 0) throw new EOFException(s"$left bytes are missing")
        left -= count
        count
      }

    def skipRest(): Unit = {
      val scratch = new Array[Byte](1024)
      while (read(scratch, 0, scratch.length) >= 0) ()
    }

    private def more(): Boolean = {
      if (left == 0 && !ended) {
        left = in.readInt()
        ended = left == 0
        if (left < 0) throw damaged(source, s"it has a chunk of $left bytes")
        bytes += left
      }
      left > 0
    }
  }
}

/** The times of the next timers of each kind in milliseconds since 1970; `Long.MaxValue` for none. */
private[pillarbox] final case class DueTimes(eventTime: Long, processingTime: Long) {

  /** The earlier time of each kind. */
  def min(that: DueTimes): DueTimes =
    DueTimes(math.min(eventTime, that.eventTime), math.min(processingTime, that.processingTime))

  /** True if a timer is due. A watermark of `Long.MinValue` stands for none: no event-time timer is due. */
  def areDue(watermark: Long, time: Long): Boolean =
    (watermark != Long.MinValue && eventTime <= watermark) || processingTime <= time
}

private[pillarbox] object DueTimes {
  val Never: DueTimes = DueTimes(Long.MaxValue, Long.MaxValue)

  /** Converts Spark's watermark, which is 0 before there is one, and never below. */
  def watermark(sparks: Long): Long = if (sparks > 0) sparks else Long.MinValue
}
