package io.pillarbox.metered.journal

import java.io.{BufferedOutputStream, DataOutputStream, IOException, RandomAccessFile}
import java.nio.ByteBuffer
import java.nio.file.{Files, Path}

import scala.util.Using

/** A place in an index: where the newest record of a key is, and when that was written. */
private[journal] final class IndexEntry(val high: Long, val low: Long, val timeMs: Long, val place: Long) {

  def isBehind(other: IndexEntry): Boolean = high > other.high || (high == other.high && low > other.low)

  def isOfSameKey(other: IndexEntry): Boolean = high == other.high && low == other.low
}

/**
 * Entries of an index on the local disk, sorted by their keys, 32 bytes each, and a number in memory for each
 * 128 of them. The file has no name, so it is gone with the process. One thread at a time.
 *
 * @param firsts the upper half of the first key of each block
 * @param newestMs the time of the newest record
 */
private[journal] final class IndexRun private (
    file: RandomAccessFile,
    firsts: Array[Long],
    val size: Long,
    val newestMs: Long
) extends AutoCloseable {
  import IndexRun._

  private val bytes = new Array[Byte](BlockSize)
  private val block = ByteBuffer.wrap(bytes)
  private var loaded = -1

  /** Finds the entry of a key; null if there is none. */
  @throws[IOException]
  def find(key: CallKey): IndexEntry = {
    // It may be in the block before the first one that begins with its upper half, or at the start of that.
    val start = math.max(0, firstNotBelow(key.high) - 1).toLong * BlockEntries
    var (from, to) = (start, math.min(size, start + BlockEntries))
    while (from < to) {
      val middle = (from + to) >>> 1
      if (isBelow(entryAt(middle), key)) from = middle + 1 else to = middle
    }
    while (from < size && isBelow(entryAt(from), key)) from += 1
    val entry = if (from < size) entryAt(from) else null
    if (entry != null && entry.high == key.high && entry.low == key.low) entry else null
  }

  private def isBelow(entry: IndexEntry, key: CallKey): Boolean =
    entry.high < key.high || (entry.high == key.high && entry.low < key.low)

  /** The first block that doesn't begin below it. */
  private def firstNotBelow(high: Long): Int = {
    var (from, to) = (0, firsts.length)
    while (from < to) {
      val middle = (from + to) >>> 1
      if (firsts(middle) < high) from = middle + 1 else to = middle
    }
    from
  }

  private def entryAt(index: Long): IndexEntry = {
    load((index / BlockEntries).toInt)
    val at = (index % BlockEntries).toInt * EntrySize
    new IndexEntry(block.getLong(at), block.getLong(at + 8), block.getLong(at + 16), block.getLong(at + 24))
  }

  private def load(number: Int): Unit = if (number != loaded) {
    loaded = -1
    file.seek(number.toLong * BlockSize)
    file.readFully(
      bytes,
      0,
      math.min(BlockSize.toLong, (size - number.toLong * BlockEntries) * EntrySize).toInt
    )
    loaded = number
  }

  /** All entries in their order. No other method may be called before it ends. */
  def entries: Iterator[IndexEntry] = Iterator.range(0L, size).map(entryAt)

  override def close(): Unit = file.close()
}

private[journal] object IndexRun {
  final val EntrySize = 32
  private final val BlockEntries = 128
  private final val BlockSize = EntrySize * BlockEntries

  /** @param entries sorted by their keys, of which each is there once */
  @throws[IOException]
  def write(folder: Path, entries: Iterator[IndexEntry]): IndexRun = {
    val path = Files.createTempFile(folder, "journal", ".index")
    try {
      val firsts = Array.newBuilder[Long]
      var (size, newestMs) = (0L, Long.MinValue)
      Using.resource(new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(path), 1 << 16))) {
        out =>
          entries.foreach { entry =>
            if (size % BlockEntries == 0) firsts += entry.high
            Seq(entry.high, entry.low, entry.timeMs, entry.place).foreach(out.writeLong)
            size += 1
            newestMs = math.max(newestMs, entry.timeMs)
          }
      }
      new IndexRun(new RandomAccessFile(path.toFile, "r"), firsts.result(), size, newestMs)
    } finally Files.delete(path)
  }

  /** Merges sorted entries. Of those of a key the one with the latest time stays, or else the last run's. */
  def merge(runs: Seq[Iterator[IndexEntry]]): Iterator[IndexEntry] = new Iterator[IndexEntry] {
    private val sources = runs.map(_.buffered).toArray

    override def hasNext: Boolean = sources.exists(_.hasNext)

    override def next(): IndexEntry = {
      var least: IndexEntry = null
      sources.foreach(source =>
        if (source.hasNext && (least == null || least.isBehind(source.head))) least = source.head
      )
      var newest = least
      sources.foreach { source =>
        if (source.hasNext && source.head.isOfSameKey(least)) {
          val entry = source.next()
          if (entry.timeMs >= newest.timeMs) newest = entry
        }
      }
      newest
    }
  }
}
