package io.pillarbox.metered.journal

import java.io.IOException
import java.nio.file.Path

private[journal] final case class RecordPlace(segment: Int, offset: Long)

/** A record of a segment, and where it stands there. */
private[journal] final case class FoundRecord(key: CallKey, timeMs: Long, offset: Long)

/**
 * Decides which records count.
 *
 * @param ttlMs the age from which on records don't count, in the past or in the future; 0 for none
 * @param timeMs returns the time of now
 */
private[journal] final class RecordAge(val ttlMs: Long, timeMs: () => Long) {

  def nowMs: Long = timeMs()

  /** Compares by distance: a clock that was set back must not let records live for ever. */
  def counts(writtenMs: Long, nowMs: Long): Boolean = ttlMs == 0 || math.abs(nowMs - writtenMs) < ttlMs
}

/**
 * The newest records of all segments by key. The latest ones are in a table in memory. When that has its
 * largest size, they go to a sorted run on the local disk; runs of like size become one. So beside the table
 * it takes 62 MB of memory for a billion records, and 32 bytes of disk for each. Thread-safe.
 *
 * @param folder returns the folder on the local disk, when it is needed
 * @param mostSlots the largest size of the table in slots of 32 bytes, a power of 2
 */
private[journal] final class JournalIndex(
    age: RecordAge,
    folder: () => Path,
    mostSlots: Int = JournalIndex.MostSlots
) extends AutoCloseable {
  import JournalIndex._

  private val table = new IndexTable(age, mostSlots)

  /** From the oldest to the latest. */
  private var runs = Vector.empty[IndexRun]

  /** The number of records; one that is in the table and in runs counts several times. */
  def size: Long = synchronized(table.size + runs.map(_.size).sum)

  /** Finds the record of the key; null if there is none that counts. */
  @throws[IOException]
  def find(key: CallKey): RecordPlace = synchronized {
    val now = age.nowMs
    def counting(entry: IndexEntry) = if (entry == null || !age.counts(entry.timeMs, now)) null else entry
    var found = counting(table.find(key))
    runs.reverseIterator.foreach { run =>
      val entry = counting(run.find(key))
      if (entry != null && (found == null || entry.timeMs > found.timeMs)) found = entry
    }
    if (found == null) null
    else RecordPlace((found.place >>> OffsetBits).toInt, found.place & LargestOffset)
  }

  /**
   * @param isNewest true if it replaces a record whatever its time; otherwise only one that is not younger or
   *   doesn't count
   */
  @throws[IOException]
  def put(key: CallKey, timeMs: Long, segment: Int, offset: Long, isNewest: Boolean): Unit = synchronized {
    if (table.isFull) spill()
    table.put(key, timeMs, segment.toLong << OffsetBits | offset, isNewest)
  }

  /** Puts records of a segment, each if it is not older than what is there. */
  @throws[IOException]
  def putAll(segment: Int, records: Seq[FoundRecord]): Unit = synchronized {
    records.foreach(record => put(record.key, record.timeMs, segment, record.offset, isNewest = false))
  }

  private def spill(): Unit = {
    runs :+= IndexRun.write(folder(), table.sorted())
    table.clear()
    val now = age.nowMs
    val (others, counting) = runs.partition(run => !age.counts(run.newestMs, now) && run.newestMs < now)
    others.foreach(_.close())
    runs = counting
    while (isToMerge) mergeLast(now)
  }

  /** True if the last runs are of like size. */
  private def isToMerge: Boolean =
    runs.size >= MergedRuns && runs.takeRight(MergedRuns).head.size < 2 * runs.last.size

  private def mergeLast(now: Long): Unit = {
    val (first, last) = runs.splitAt(runs.size - MergedRuns)
    val merged = IndexRun.merge(last.map(_.entries)).filter(entry => age.counts(entry.timeMs, now))
    runs = first :+ IndexRun.write(folder(), merged)
    last.foreach(_.close())
  }

  override def close(): Unit = synchronized {
    runs.foreach(_.close())
    runs = Vector.empty
  }
}

private[journal] object JournalIndex {

  /** A table of them takes a sixth of the heap at most. */
  private val MostSlots =
    java.lang.Long
      .highestOneBit(math.min(1L << 26, Runtime.getRuntime.maxMemory / (6 * IndexRun.EntrySize)))
      .toInt
  private final val MergedRuns = 4
  private final val OffsetBits = 40
  private final val LargestOffset = (1L << OffsetBits) - 1

  /** A place is a segment's number and an offset, which the size of segments bounds, in 63 bits. */
  final val MostSegments = 1 << 23
}
