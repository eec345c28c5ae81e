package io.pillarbox.metered.journal

import java.io.IOException
import java.nio.file.{Path, Paths}
import java.util.concurrent.TimeUnit

import scala.collection.mutable
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

/**
 * The journals of a process, each by the path of its folder and how long its answers count. Thread-safe.
 *
 * A journal that no task has any more stays open for ten minutes, so that the next micro-batch need not read it
 * again.
 *
 * @param nanoTime returns nanoseconds from an arbitrary origin
 * @param timeMs returns the time that records get, and that their age is judged by
 * @param scratch returns a folder on the local disk, for what is too large for memory
 * @param later runs something so many nanoseconds later, on any thread
 */
private[pillarbox] final class Journals(
    nanoTime: () => Long,
    timeMs: () => Long,
    limits: JournalLimits = JournalLimits(),
    scratch: () => Path = Journals.TemporaryFolder,
    later: (Long, Runnable) => Unit = Journals.OnTimer
) {
  import Journals._

  private val open = mutable.HashMap.empty[(String, Long), Shared]

  /**
   * Returns the answers to `operator` in the journal at `path`, with all that was written to it up to now.
   *
   * @param ttlMs the age from which on records don't count, in the past or in the future; 0 for none
   */
  @throws[IOException]
  def hold(path: String, ttlMs: Long, operator: JournalOperator, files: => JournalFiles): HeldJournal = {
    val shared = take(path, ttlMs, files)
    try {
      shared.journal.refresh()
      new HeldJournal(shared.journal, operator, timeMs, () => release(shared))
    } catch {
      case e: Throwable =>
        release(shared)
        throw e
    }
  }

  /** The number of journals whose indexes are held. */
  def openCount: Int = synchronized(open.size)

  /** The number of those of them that tasks have. */
  def heldCount: Int = synchronized(open.values.count(_.holders > 0))

  private def take(path: String, ttlMs: Long, files: => JournalFiles): Shared = synchronized {
    def made = new Shared(new Journal(files, limits, new RecordAge(ttlMs, timeMs), nanoTime, scratch))
    val shared = open.getOrElseUpdate((path, ttlMs), made)
    shared.holders += 1
    shared
  }

  private def release(shared: Shared): Unit = synchronized {
    shared.holders -= 1
    shared.releasedNanos = nanoTime()
    watch(shared)
  }

  /** Sees to it that the journal is closed once nobody has used it for a while. */
  private def watch(shared: Shared): Unit = if (shared.holders == 0 && !shared.isWatched) {
    shared.isWatched = true
    later(shared.releasedNanos + KeepNanos - nanoTime(), () => if (isForgotten(shared)) close(shared))
  }

  private def isForgotten(shared: Shared): Boolean = synchronized {
    shared.isWatched = false
    val isOver = shared.holders == 0 && nanoTime() - shared.releasedNanos >= KeepNanos
    if (isOver) open.filterInPlace((_, other) => other ne shared) else watch(shared)
    isOver
  }

  /** Outside the lock: a file system may take its time, and tasks with other journals do not wait for it. */
  private def close(shared: Shared): Unit =
    try shared.journal.close()
    catch { case NonFatal(e) => log.warn("Could not close a journal", e) }
}

private[pillarbox] object Journals {
  private val log = LoggerFactory.getLogger(classOf[Journals])
  private val KeepNanos = TimeUnit.MINUTES.toNanos(10)

  private val TemporaryFolder = () => Paths.get(System.getProperty("java.io.tmpdir"))

  private val OnTimer: (Long, Runnable) => Unit = JournalThreads.after(_)(_)

  private final class Shared(val journal: Journal) {
    var holders = 0
    var releasedNanos = 0L
    var isWatched = false
  }
}

/** Gives a task an operator's answers in a journal. One thread at a time. */
private[pillarbox] final class HeldJournal private[journal] (
    journal: Journal,
    operator: JournalOperator,
    timeMs: () => Long,
    release: () => Unit
) extends AutoCloseable {

  private val reader = new SegmentReader(journal.files)
  private val records = new RecordBuffer(operator)
  private val unsettled = new java.util.LinkedHashSet[Unsettled]
  private var isHeld = true

  /**
   * The payload of the key's record, or null if there is none that counts. A record that another process has
   * written lately is found later: after a second, or a hundred times what it takes to look at the folder.
   */
  @throws[IOException]
  def find(key: CallKey): Array[Byte] = {
    val unwritten = if (records.isEmpty) null else records.payload(key)
    if (unwritten != null) unwritten else findWritten(key.of(operator))
  }

  private def findWritten(key: CallKey): Array[Byte] = {
    val unread = journal.writer.findUnread(key)
    if (unread == null) findReadable(key)
    else {
      // The row that gets it may not leave for good before it is safe.
      await(unread.segment)
      unread.payload
    }
  }

  private def await(appended: Unsettled): Unit = {
    unsettled.removeIf(_.isSafe)
    unsettled.add(appended): Unit
  }

  private def findReadable(key: CallKey): Array[Byte] = {
    val place = journal.find(key)
    if (place == null) {
      journal.refreshSoon()
      null
    } else {
      val payload = payloadAt(place, key)
      if (payload == null) findMoved(key, place) else payload
    }
  }

  private def payloadAt(place: RecordPlace, key: CallKey): Array[Byte] = {
    val name = journal.nameOf(place)
    if (name == null) null else reader.payload(name, place.offset, key)
  }

  /**
   * Looks for a record that isn't where it was: its segment may have another name, or a copy. If the segment is
   * there the record is damaged.
   */
  private def findMoved(key: CallKey, old: RecordPlace): Array[Byte] = {
    val name = journal.nameOf(old)
    if (name != null && journal.files.exists(name)) null
    else {
      journal.refresh()
      val place = journal.find(key)
      if (place == null || place == old) null else payloadAt(place, key)
    }
  }

  /** Makes sure that records can be written, or throws. */
  @throws[IOException]
  def open(): Unit = {
    throwLost()
    journal.writer.open()
  }

  /** Throws if records that this task has written are lost, even if it writes no more. */
  private def throwLost(): Unit =
    unsettled.forEach(appended => if (appended.failure != null) throw appended.failure)

  /** Adds a record, which `flush` writes. */
  def add(key: CallKey, cost: CallCost, payload: Array[Byte], length: Int): Unit =
    records.add(key, timeMs(), cost, payload, length)

  /** Writes the added records; none of them counts if it throws. */
  @throws[IOException]
  def flush(): Unit = if (!records.isEmpty)
    try {
      throwLost()
      val appended = journal.writer.append(records)
      if (appended != null) await(appended)
    } finally records.clear()

  /** Makes the flushed records safe, or throws. */
  @throws[IOException]
  def settle(): Unit = {
    unsettled.forEach(journal.writer.settle(_))
    unsettled.clear()
  }

  /** Makes the flushed records safe, or throws; drops those that were only added. Idempotent. */
  @throws[IOException]
  override def close(): Unit = if (isHeld) {
    isHeld = false
    try reader.close()
    finally
      try settle()
      finally release()
  }
}
