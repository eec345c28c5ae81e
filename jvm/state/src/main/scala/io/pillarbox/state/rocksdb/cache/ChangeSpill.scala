package io.pillarbox.state.rocksdb.cache

import java.io.IOException
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Path, StandardOpenOption}
import java.util
import java.util.zip.CRC32C

import scala.collection.mutable

import io.pillarbox.api.{InputView, OutputView}
import io.pillarbox.state.StateBackendException

/**
 * Changes for the next commit that memory had no room for: sorted runs, one a spill, in one file beside the
 * database, read once by the commit.
 *
 * RocksDB has the values too, but would be asked for each; here they are read in their order. Every block has
 * a checksum. Many runs are merged to one, so that a commit reads from few at a time. Not thread-safe.
 *
 * @param directory the directory of the database, there when the first run is written
 * @param name the name of the file, which [[close]] deletes
 */
private[rocksdb] final class ChangeSpill(directory: Path, name: String) extends AutoCloseable {
  import ChangeSpill._

  private val path = directory.resolve(name)

  private var file: FileChannel = _
  private var end = 0L
  private val runs = mutable.ArrayBuffer.empty[Run]
  private val block = new OutputView(4096)
  private val checksum = new CRC32C

  def isEmpty: Boolean = runs.isEmpty

  /** Writes all records of a cursor as the newest run, or nothing at all if that fails. */
  def add(records: ChangeCursor): Unit = {
    addRun(records, 0)
    while (runs.size >= MaxRuns && runs.takeRight(MaxRuns).forall(_.level == runs.last.level)) mergeNewest()
  }

  /** Returns a cursor for each run, the oldest first. */
  def cursors: Seq[ChangeCursor] = runs.toSeq.map(new RunCursor(_))

  def clear(): Unit = if (file != null) {
    runs.clear()
    end = 0L
    guarded("empty")(file.truncate(0L)): Unit
  }

  override def close(): Unit = if (file != null) {
    runs.clear()
    file.close()
    file = null
  }

  private def mergeNewest(): Unit = {
    val level = runs.last.level
    val newest = runs.takeRight(MaxRuns)
    val merged = new MergedChanges(newest.toSeq.map(new RunCursor(_)))
    addRun(merged, level + 1)
    runs.remove(runs.size - 1 - MaxRuns, MaxRuns)
  }

  private def addRun(records: ChangeCursor, level: Int): Unit = {
    if (file == null) file = guarded("create")(FileChannel.open(path, Options: _*))
    val start = end
    try {
      block.clear()
      block.writeLong(0L)
      while (records.advance()) {
        write(records)
        if (block.length >= BlockBytes) writeBlock()
      }
      if (block.length > HeaderBytes) writeBlock()
      runs += new Run(start, end, level)
    } catch {
      case e: Throwable =>
        end = start
        throw e
    }
  }

  private def write(record: ChangeCursor): Unit = {
    block.writeVarInt(record.column)
    block.writeVarInt(record.keyLength)
    block.writeBytes(record.bytes, record.keyOffset, record.keyLength)
    block.writeVarInt((record.valueLength + 1) << 1 | (if (record.isPartial) 1 else 0))
    if (record.valueLength > 0) block.writeBytes(record.bytes, record.valueOffset, record.valueLength)
  }

  private def writeBlock(): Unit = {
    checksum.reset()
    checksum.update(block.array, HeaderBytes, block.length - HeaderBytes)
    val buffer = ByteBuffer.wrap(block.array, 0, block.length)
    buffer.putInt(0, block.length - HeaderBytes).putInt(4, checksum.getValue.toInt)
    guarded("write to")(while (buffer.hasRemaining) end += file.write(buffer, end))
    block.clear()
    block.shrinkTo(4 * BlockBytes)
    block.writeLong(0L)
  }

  private def guarded[A](what: String)(action: => A): A =
    try action
    catch {
      case e: IOException =>
        throw new StateBackendException(
          "STATE_STORE_FAILED",
          s"Could not $what ${path}, where changes wait for the next commit: ${e.getMessage}. " +
            "Check that the directory is there and is not full",
          e
        )
    }

  private final class Run(val start: Long, val end: Long, val level: Int)

  private final class RunCursor(run: Run) extends ChangeCursor {
    private var content = new Array[Byte](0)
    private val in = new InputView
    private var at = run.start

    override def bytes: Array[Byte] = content

    override def advance(): Boolean = (in.remaining > 0 || readBlock()) && {
      column = in.readVarInt()
      keyLength = in.readVarInt()
      keyOffset = in.position
      in.skip(keyLength)
      val header = in.readVarInt()
      valueLength = (header >>> 1) - 1
      isPartial = (header & 1) != 0
      valueOffset = in.position
      if (valueLength > 0) in.skip(valueLength)
      true
    }

    private def readBlock(): Boolean = at < run.end && {
      val header = read(HeaderBytes, new Array[Byte](HeaderBytes))
      val length = header.getInt(0)
      if (length <= 0 || length > run.end - at) throw damaged()
      if (content.length < length || content.length > 4 * BlockBytes) content = new Array[Byte](length)
      read(length, content)
      val found = new CRC32C
      found.update(content, 0, length)
      if (found.getValue.toInt != header.getInt(4)) throw damaged()
      in.wrap(content, 0, length)
      true
    }

    private def read(length: Int, into: Array[Byte]): ByteBuffer = {
      val buffer = ByteBuffer.wrap(into, 0, length)
      while (buffer.hasRemaining) {
        val count = guarded("read")(file.read(buffer, at))
        if (count < 0) throw damaged()
        at += count
      }
      buffer
    }

    private def damaged(): StateBackendException = new StateBackendException(
      "STATE_FILE_CORRUPT",
      s"${path}, where changes wait for the next commit, is damaged before byte $at: something else " +
        "wrote to it, or the disk is bad. Restore from a snapshot",
      null
    )
  }
}

private object ChangeSpill {
  private final val HeaderBytes = 8
  private final val BlockBytes = 32 << 10

  /** The number of runs of one size that become one of the next. */
  private final val MaxRuns = 64

  private val Options = Seq(
    StandardOpenOption.CREATE_NEW,
    StandardOpenOption.READ,
    StandardOpenOption.WRITE,
    StandardOpenOption.DELETE_ON_CLOSE
  )
}

/**
 * Walks over changed entries in the order of columns and keys. The fields describe the entry of the last
 * [[advance]].
 */
private[pillarbox] abstract class ChangeCursor {
  var column = 0
  var keyOffset = 0
  var keyLength = 0
  var valueOffset = 0

  /** -1 if the entry was removed. */
  var valueLength = 0

  /** True if the value is only the end of one, to be added to the value before. */
  var isPartial = false

  /** Holds key and value; only valid until the next [[advance]]. */
  def bytes: Array[Byte]

  /** Moves to the next entry; false at the end. */
  def advance(): Boolean

  final def compareTo(other: ChangeCursor): Int =
    if (column != other.column) Integer.compare(column, other.column)
    else
      util.Arrays.compareUnsigned(
        bytes,
        keyOffset,
        keyOffset + keyLength,
        other.bytes,
        other.keyOffset,
        other.keyOffset + other.keyLength
      )
}

/**
 * Merges several cursors: each entry once, as the last of them has it, or the last few together if they are
 * partial.
 */
private[rocksdb] final class MergedChanges(oldestFirst: Seq[ChangeCursor]) extends ChangeCursor {
  private val order: java.util.Comparator[(ChangeCursor, Int)] = (one, other) => {
    val byKey = one._1.compareTo(other._1)
    if (byKey != 0) byKey else Integer.compare(other._2, one._2)
  }
  private val waiting = new util.PriorityQueue[(ChangeCursor, Int)](16, order)
  private var current: (ChangeCursor, Int) = _
  oldestFirst.zipWithIndex.foreach(cursor => if (cursor._1.advance()) waiting.add(cursor))

  /** The cursors with the current entry before the last one, the newest first. */
  private val older = mutable.ArrayBuffer.empty[(ChangeCursor, Int)]
  private val joined = new OutputView(256)
  private var isJoined = false

  override def bytes: Array[Byte] = if (isJoined) joined.array else current._1.bytes

  override def advance(): Boolean = {
    if (current != null) moveOn(current)
    older.foreach(moveOn)
    older.clear()
    current = waiting.poll()
    if (current != null) {
      while (!waiting.isEmpty && waiting.peek._1.compareTo(current._1) == 0) older += waiting.poll()
      show(current._1)
      isJoined = isPartial && older.nonEmpty
      if (isJoined) join()
    }
    current != null
  }

  /** Puts the parts of the entry together, from the last one that is whole on. */
  private def join(): Unit = {
    val whole = older.indexWhere(!_._1.isPartial)
    val parts =
      (if (whole < 0) older else older.take(whole + 1)).reverseIterator.map(_._1) ++ Iterator(current._1)
    joined.clear()
    joined.shrinkTo(OutputView.IdleBytes)
    joined.writeBytes(current._1.bytes, keyOffset, keyLength)
    parts.foreach(part =>
      if (part.valueLength > 0) joined.writeBytes(part.bytes, part.valueOffset, part.valueLength)
    )
    keyOffset = 0
    valueOffset = keyLength
    valueLength = joined.length - keyLength
    isPartial = whole < 0
  }

  private def moveOn(cursor: (ChangeCursor, Int)): Unit =
    if (cursor._1.advance()) waiting.add(cursor): Unit

  private def show(entry: ChangeCursor): Unit = {
    column = entry.column
    keyOffset = entry.keyOffset
    keyLength = entry.keyLength
    valueOffset = entry.valueOffset
    valueLength = entry.valueLength
    isPartial = entry.isPartial
  }
}
