package io.pillarbox.metered.journal

import java.io.{FileNotFoundException, IOException, InterruptedIOException}
import java.nio.channels.ClosedByInterruptException
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.collection.mutable
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

/**
 * Writes records to segments of its own, one after the other. Thread-safe.
 *
 * A segment in which a write failed is never written to again, since there may be half a record at its end.
 * Nor is one that is older than its answers get, so that it can be deleted some time.
 *
 * @param age tells how long the answers count
 * @param onSegment gives a new segment its number
 * @param onFailed takes a segment in which a write has failed, and where the records end that `onRecord` knows:
 *   others may be behind them, whole
 * @param onRecord takes each record, with its segment and place, once it can be read
 */
private[journal] final class SegmentWriter(
    files: JournalFiles,
    limits: JournalLimits,
    age: RecordAge,
    onSegment: String => Int,
    onFailed: (Int, Long) => Unit,
    onRecord: (CallKey, Long, Int, Long) => Unit
) {
  import SegmentWriter._

  /** The segment that is written to, or null. */
  private var current: Segment = _

  /** Records that were appended and can't be read yet. */
  private val unread = new ConcurrentHashMap[CallKey, UnreadRecord]

  /** The record of the key that was appended and can't be read yet; null if there is none. Never blocks. */
  def findUnread(key: CallKey): UnreadRecord = {
    val found = unread.get(key)
    if (found == null || !age.counts(found.timeMs, age.nowMs)) null else found
  }

  /** True once it is known that files can be written. */
  private var isProven = false

  /** Makes sure that there is a segment to write to. Throws if files can't be written. */
  @throws[IOException]
  def open(): Unit = synchronized(if (current == null) {
    current = start()
    // Where a file is only there when it is closed, that is tried with an empty one.
    if (!current.persists && !isProven) {
      roll()
      current = start()
    }
    isProven = true
  })

  private def start(): Segment = {
    val name = SegmentFormat.newName(age.ttlMs)
    val out = files.create(name)
    try {
      out.write(SegmentFormat.header, 0, SegmentFormat.HeaderSize)
      new Segment(name, out, out.persist())
    } catch {
      case e: Throwable =>
        closeQuietly(out, name)
        deleteQuietly(name)
        throw e
    }
  }

  /**
   * Appends the records; they outlive the process when it returns, or a flush interval later.
   *
   * They are written again, to a new segment, if theirs has lost its name when they are in it: whoever took
   * the name may have read it before. So are they, once, if theirs can't be written to, as when another process
   * has ended its lease (HDFS), and nothing but they may be lost there.
   *
   * @return the records to be settled then; null if they are safe
   */
  @throws[IOException]
  def append(records: RecordBuffer): Unsettled = synchronized {
    if (current != null && !age.counts(current.startedMs, age.nowMs)) leave()
    if (!isWrittenOrFailed(records)) while (!isWritten(records)) {}
    val segment = current
    if (segment.persists) segment.tell() else rollLater(segment)
    if (segment.size >= limits.segmentBytes) leave()
    if (segment.persists) null else segment
  }

  /** As [[isWritten]]; false also if the segment, in which everything else is safe, is given up as it failed. */
  private def isWrittenOrFailed(records: RecordBuffer): Boolean = {
    open()
    val segment = current
    try isWritten(records)
    catch {
      case e: IOException if segment.persists && !isInterrupt(e) =>
        log.warn("Could not write to segment {} of a journal, going on in another one", segment.name, e)
        false
    }
  }

  /** Writes the records to the present segment; false if that has lost its name, and is given up. */
  private def isWritten(records: RecordBuffer): Boolean = {
    open()
    val segment = current
    try {
      segment.declare(records.operator)
      segment.out.write(records.bytes, 0, records.size)
      val hasName = !segment.persists || (segment.out.persist() && files.exists(segment.name))
      if (hasName) {
        records.foreach { (key, timeMs, start) =>
          segment.add(key, timeMs, start)
          if (!segment.persists)
            unread.put(key, new UnreadRecord(timeMs, records.payloadOf(start), segment)): Unit
        }
        segment.size += records.size
      } else abandon(new FileNotFoundException(segment.name))
      hasName
    } catch {
      case e: Throwable =>
        if (current eq segment) abandon(e)
        segment.fail()
        throw e
    }
  }

  /** Leaves the segment; whether it can be closed does not matter where its records are safe. */
  private def leave(): Unit =
    if (current.persists) abandon(new IOException("The segment is full, or old")) else roll()

  private def rollLater(segment: Segment): Unit = if (!segment.willRoll) {
    segment.willRoll = true
    JournalThreads.after(TimeUnit.MILLISECONDS.toNanos(limits.flushIntervalMs)) { () =>
      // The tasks that have written to it learn of a failure when they settle.
      try synchronized(if (current eq segment) roll())
      catch { case NonFatal(e) => log.warn("Could not close segment {} of a journal", segment.name, e) }
    }
  }

  /** Closes the segment, whose records outlive the process then. */
  @throws[IOException]
  private def roll(): Unit = {
    val segment = current
    current = null
    try segment.out.close()
    catch {
      case e: Throwable =>
        segment.lose(e match {
          case problem: IOException => problem
          case other => new IOException(s"Segment ${segment.name} could not be closed: $other", other)
        })
        segment.fail()
        throw segment.failure
    }
    segment.tell()
    segment.isSafe = true
    if (segment.size == SegmentFormat.HeaderSize) deleteQuietly(segment.name)
  }

  /** Makes the appended records safe. Throws if they are lost, also if that is known to others. */
  @throws[IOException]
  def settle(appended: Unsettled): Unit = synchronized {
    if (current eq appended) roll()
    if (appended.failure != null) throw appended.failure
  }

  /** The name of the segment that is written to, if there is one that others can see. */
  def currentName: Option[String] = synchronized(Option(current).filter(_.persists).map(_.name))

  /**
   * Writes no more to the present segment. What is not safe there before the segment is closed counts as
   * lost: it may lie behind what was written half.
   */
  def abandon(cause: Throwable): Unit = synchronized {
    val segment = current
    current = null
    if (segment != null) {
      if (!segment.persists) segment.lose(new IOException(s"Segment ${segment.name} was given up", cause))
      closeQuietly(segment.out, segment.name)
    }
  }

  @throws[IOException]
  def close(): Unit = synchronized(if (current != null) roll())

  private def closeQuietly(out: JournalOutput, name: String): Unit =
    try out.close()
    catch { case NonFatal(e) => log.warn("Could not close segment {} of a journal", name, e) }

  private def deleteQuietly(name: String): Unit =
    try files.delete(name)
    catch { case NonFatal(e) => log.warn("Could not delete segment {}, which is empty", name, e) }

  /** `persists`: true if written bytes are safe before it is closed. */
  private final class Segment(val name: String, val out: JournalOutput, val persists: Boolean)
      extends Unsettled {
    private val number = onSegment(name)
    val startedMs: Long = age.nowMs
    private val untold = mutable.ArrayBuffer.empty[(CallKey, Long, Long)]
    private val declared = mutable.HashSet.empty[(Long, Long)]
    var size: Long = SegmentFormat.HeaderSize.toLong
    var willRoll = false

    /** Describes the operator, before its first answer here. */
    def declare(operator: JournalOperator): Unit = if (declared.add((operator.high, operator.low))) {
      val entry = SegmentFormat.entryOf(operator)
      out.write(entry, 0, entry.length)
      size += entry.length
    }

    def add(key: CallKey, timeMs: Long, start: Int): Unit = untold += ((key, timeMs, size + start))

    /** Tells of its records, which can be read now. */
    def tell(): Unit = {
      untold.foreach { case (key, timeMs, offset) => onRecord(key, timeMs, number, offset) }
      forget()
    }

    /** Tells that it may have records which nobody knows. */
    def fail(): Unit = onFailed(number, if (persists) size else 0L)

    /** Notes that its records are lost. */
    def lose(reason: IOException): Unit = {
      failure = reason
      forget()
    }

    private def forget(): Unit = {
      if (!persists) untold.foreach { case (key, _, _) =>
        unread.computeIfPresent(key, (_, record) => if (record.segment eq this) null else record)
      }
      untold.clear()
    }
  }
}

/** Records that were appended and that are not safe before their segment is closed. */
private[journal] sealed trait Unsettled {

  /** The reason why they are lost; null if they aren't. */
  @volatile var failure: IOException = _

  /** True once they are safe. */
  @volatile var isSafe = false
}

/**
 * A record that was appended and can't be read yet.
 *
 * @param segment what it is safe with
 */
private[journal] final class UnreadRecord(val timeMs: Long, val payload: Array[Byte], val segment: Unsettled)

private object SegmentWriter {
  private val log = LoggerFactory.getLogger(classOf[SegmentWriter])

  /** True for what a task that is being ended gets, which goes on nowhere. */
  private def isInterrupt(problem: IOException): Boolean =
    problem.isInstanceOf[InterruptedIOException] || problem.isInstanceOf[ClosedByInterruptException]
}

/**
 * @param segmentBytes the size from which on a segment gets a successor
 * @param flushIntervalMs the time after which a segment is closed, where files are only safe then
 * @param mostSegments that a process may see, while it has the journal open
 */
private[pillarbox] final case class JournalLimits(
    segmentBytes: Long = 64L << 20,
    flushIntervalMs: Long = 5000L,
    mostSegments: Int = JournalIndex.MostSegments
)
