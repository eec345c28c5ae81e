package io.pillarbox.metered.journal

import java.io.{FileNotFoundException, IOException}
import java.nio.file.Path
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.{Callable, ExecutionException, Executors, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Using
import scala.util.control.NonFatal

import org.slf4j.LoggerFactory

/**
 * The answers in one folder, for all tasks of a process. Thread-safe.
 *
 * Guarantees: a record that was appended is found, by this process at once and by others when they `refresh`,
 * unless its segment was deleted; nothing else is found. Writers don't disturb each other: each has segments
 * of its own. Of several records of a key the one with the latest time counts, and this process's own before
 * others'.
 */
private[journal] final class Journal(
    val files: JournalFiles,
    limits: JournalLimits,
    age: RecordAge,
    nanoTime: () => Long,
    scratch: () => Path
) extends AutoCloseable {
  import Journal._

  private val index = new JournalIndex(age, scratch)
  private val segments = mutable.ArrayBuffer.empty[Segment]
  private val byName = mutable.HashMap.empty[String, Segment]

  /** Stands in `segments` for all that are gone. */
  private val gone: Segment = new Segment(null, -1, isOwn = false)
  gone.isGone = true
  val writer: SegmentWriter = new SegmentWriter(
    files,
    limits,
    age,
    name => addSegment(name, isOwn = true).number,
    (number, size) => segments.synchronized(segments(number)).failed(size),
    (key, timeMs, segment, offset) => index.put(key, timeMs, segment, offset, isNewest = true)
  )
  private val refreshing = new Object
  private val isAsked = new AtomicBoolean
  private var wasRead = false

  /** The numbers of the refresh that began last, and of the last one that was done. */
  @volatile private var begun = 0L
  private var done = 0L
  @volatile private var nextRefresh = nanoTime()

  def size: Long = index.size

  /**
   * Reads the records that others have written since the last time. One that has waited for another thread's,
   * which began after it was asked for, has no need of its own.
   */
  @throws[IOException]
  def refresh(): Unit = {
    val asked = begun
    refreshing.synchronized(if (done <= asked) {
      begun += 1
      refreshNow()
      done = begun
    })
  }

  private def refreshNow(): Unit = {
    val start = nanoTime()
    var round = 1
    while (!readNew() && round < MostRounds) round += 1
    val end = nanoTime()
    // To read all the folder takes long, to look for what is new afterwards does not.
    val rest = if (wasRead) RestShare * (end - start) else 0L
    wasRead = true
    nextRefresh = end + math.max(RefreshNanos, rest)
  }

  /** Refreshes on another thread, if that was not done lately. Never blocks. */
  def refreshSoon(): Unit = if (nanoTime() - nextRefresh >= 0 && isAsked.compareAndSet(false, true))
    JournalThreads.execute { () =>
      try refresh()
      catch { case NonFatal(e) => log.warn("What others write to a journal can't be read for now", e) }
      finally isAsked.set(false)
    }

  /** Reads what is new in the folder; false if segments were gone or renamed between its list and that. */
  private def readNew(): Boolean = {
    val own = writer.currentName
    val now = age.nowMs
    val segmentFiles = files.list().filter(file => SegmentFormat.isName(file.name))
    val (old, found) = segmentFiles.partition(SegmentFormat.isOver(_, now))
    old.foreach(delete)
    // The segment was deleted: records that go there now would be lost.
    if (own.exists(name => !found.exists(_.name == name)) && writer.currentName == own)
      writer.abandon(new FileNotFoundException(own.get))
    // A record that was copied has its place in the copy then.
    val generations = found.filter(isNew).groupBy(file => SegmentFormat.generationOf(file.name)).toSeq
    val areThere =
      generations.sortBy(_._1).map { case (_, some) => areRead(some.map(file => segmentOf(file.name))) }
    // What has another name now is known by that already, or else comes in the next list.
    val isWhole =
      areThere.forall(identity) && found.filter(isLeftover(_, now)).map(isReplaced).forall(!_)
    if (isWhole) {
      val there = found.iterator.map(_.name).toSet
      segments.synchronized {
        byName.values.foreach(segment => segment.see(there(segment.name)))
        byName.filterInPlace { (_, segment) =>
          if (segment.isGone) segments(segment.number) = gone
          !segment.isGone
        }: Unit
      }
    }
    isWhole
  }

  /**
   * True if it may have records that were not read. Of what is being written a list of HDFS tells the length
   * at the first flush, which is the header's.
   */
  private def isNew(file: JournalFile): Boolean = {
    val segment = segmentOf(file.name)
    !segment.isOwn && segment.left != file && hasUnread(segment, file)
  }

  private def hasUnread(segment: Segment, file: JournalFile) =
    segment.readTo <= SegmentFormat.HeaderSize || segment.readTo != file.length

  /** True for a file that was read, and whose writer has been killed: before an answer, or within one. */
  private def isLeftover(file: JournalFile, nowMs: Long): Boolean = {
    val segment = segmentOf(file.name)
    val isLong = file.length >= segment.readTo
    !segment.isOwn && segment.left != file && isLong && hasUnread(segment, file) &&
    nowMs - file.writtenMs >= LeftoverMs
  }

  /**
   * Puts the whole answers of a leftover into another segment, if there are any; false if it stays, and is not
   * looked at again. A writer that is not dead goes on in another segment, as after a purge.
   */
  private def isReplaced(file: JournalFile): Boolean = {
    val isOurs = file.length == 0 || segmentOf(file.name).readTo > 0
    if (!isOurs) segmentOf(file.name).left = file
    isOurs && {
      try {
        new StoredAnswers(files, () => age.nowMs).delete(file.name, Iterator.empty)
        true
      } catch {
        case _: FileNotFoundException => true
        case NonFatal(e) =>
          log.debug("Could not replace the segment {} of a journal", file.name, e)
          segmentOf(file.name).left = file
          false
      }
    }
  }

  private def delete(file: JournalFile): Unit =
    try files.delete(file.name)
    catch { case NonFatal(e) => log.debug("Could not delete the old segment {} of a journal", file.name, e) }

  private def segmentOf(name: String): Segment = segments.synchronized {
    byName.getOrElse(name, addSegment(name, isOwn = false))
  }

  /** @throws TooManySegmentsException before anything is called for that could not be kept */
  private def addSegment(name: String, isOwn: Boolean): Segment = segments.synchronized {
    if (segments.size >= limits.mostSegments) throw new TooManySegmentsException(limits.mostSegments)
    val segment = new Segment(name, segments.size, isOwn)
    segments += segment
    byName(name) = segment
    segment
  }

  /**
   * Reads what is new in segments, several at a time: on an object store there may be thousands of small ones,
   * and each takes a request. False if one is not there.
   */
  private def areRead(some: Seq[Segment]): Boolean =
    if (some.size == 1) isRead(some.head)
    else {
      val readers =
        Executors.newFixedThreadPool(math.min(MostReaders, some.size), new Thread(_, "pillarbox-journal"))
      try
        readers
          .invokeAll(some.map(segment => (() => isRead(segment)): Callable[Boolean]).asJava)
          .asScala
          .map(_.get)
          .forall(identity)
      catch { case failed: ExecutionException => throw failed.getCause }
      finally readers.shutdownNow(): Unit
    }

  /** Reads what is new in a segment; false if it is not there. */
  private def isRead(segment: Segment): Boolean =
    try {
      Using.resource(files.open(segment.name)) { in =>
        val scan = new SegmentScan(in, segment.name, segment.readTo)
        recordsOf(scan).grouped(RecordsAtOnce).foreach(index.putAll(segment.number, _))
        segment.readTo = scan.end
      }
      true
    } catch { case _: FileNotFoundException => false }

  private def recordsOf(scan: SegmentScan): Iterator[FoundRecord] =
    Iterator
      .continually(scan.next())
      .takeWhile(identity)
      .filter(_ => SegmentFormat.isAnswer(scan.buffer, scan.at))
      .map { _ =>
        val timeMs = SegmentFormat.timeAt(scan.buffer, scan.at)
        FoundRecord(SegmentFormat.keyAt(scan.buffer, scan.at), timeMs, scan.offset)
      }
      .filter(record => age.counts(record.timeMs, age.nowMs))

  /** Finds the record of the key; null if there is none that counts. */
  @throws[IOException]
  def find(key: CallKey): RecordPlace = {
    val place = index.find(key)
    if (place == null || segmentOf(place).isGone) null else place
  }

  @throws[IOException]
  override def close(): Unit =
    try writer.close()
    finally index.close()

  /** The number of segments that are known to be in the folder. */
  private[journal] def segmentCount: Int = segments.synchronized(byName.size)

  /** Returns the name of the record's segment; null if that is gone. */
  def nameOf(place: RecordPlace): String = segmentOf(place).name

  private def segmentOf(place: RecordPlace) = segments.synchronized(segments(place.segment))

  /** `readTo`: where the last whole record that was read ends. */
  private final class Segment(val name: String, val number: Int, @volatile var isOwn: Boolean) {
    @volatile var readTo = 0L

    /** The file that is not read again unless it changes; null for none. */
    var left: JournalFile = _

    /** Lets the next refresh read what is behind the known records of this process. */
    def failed(size: Long): Unit = {
      readTo = size
      isOwn = false
    }

    private var wasSeen = false

    /** True if it was deleted, or has another name since. */
    @volatile var isGone = false

    /** Tells whether it is in the folder; one that was not seen yet may not have been closed yet. */
    def see(isThere: Boolean): Unit = {
      wasSeen ||= isThere
      isGone = wasSeen && !isThere
    }
  }
}

/** A process has seen more segments of a journal than its index can tell apart. */
private[pillarbox] final class TooManySegmentsException(val most: Int)
    extends IOException(s"it has more than $most segments")

private object Journal {
  private val log = LoggerFactory.getLogger(classOf[Journal])

  /** The time after which a file is left by its writer. Clocks of stores differ by less. */
  private val LeftoverMs = TimeUnit.HOURS.toMillis(1)

  /** The time within which a task that finds nothing learns what others have written. */
  private val RefreshNanos = TimeUnit.SECONDS.toNanos(1)

  /** Looking takes at most one part in this many of the time. */
  private final val RestShare = 100L

  /** How often the folder is listed at most while segments go between its list and their reading. */
  private final val MostRounds = 10

  /** How many segments are read at a time. */
  private final val MostReaders = 16
  private final val RecordsAtOnce = 1000
}
