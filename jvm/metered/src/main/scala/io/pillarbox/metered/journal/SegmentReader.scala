package io.pillarbox.metered.journal

import java.io.IOException
import java.nio.ByteBuffer
import java.util

/**
 * Reads single records. It reads ahead as long as records are asked for in about the order in which they were
 * written, as a task that runs again asks. One thread; keeps a few files open until `close`.
 */
private[journal] final class SegmentReader(files: JournalFiles) extends AutoCloseable {
  import SegmentFormat._
  import SegmentReader._

  private val windows = new util.LinkedHashMap[String, Window](16, 0.75f, true) {
    override def removeEldestEntry(eldest: util.Map.Entry[String, Window]): Boolean = {
      val isOneTooMany = size > MostWindows
      if (isOneTooMany) eldest.getValue.close()
      isOneTooMany
    }
  }

  /**
   * Reads a record; null if it is damaged, or its segment is gone.
   *
   * @throws IOException if the segment is there and can't be read
   */
  @throws[IOException]
  def payload(segment: String, offset: Long, key: CallKey): Array[Byte] =
    try {
      val window = windows.computeIfAbsent(segment, name => new Window(name))
      // A file that is being written may have grown since it was opened.
      val found = window.record(offset, key)
      if (found == null && window.reopen()) window.record(offset, key) else found
    } catch {
      case e: IOException =>
        val window = windows.remove(segment)
        if (window != null) window.close()
        if (files.exists(segment)) throw e
        null
    }

  override def close(): Unit = {
    windows.values.forEach(_.close())
    windows.clear()
  }

  private final class Window(name: String) extends AutoCloseable {
    private var in = files.open(name)
    private var buffer = ByteBuffer.allocate(Smallest)
    private var start = 0L
    private var filled = 0
    private var wanted = Smallest

    def record(offset: Long, key: CallKey): Array[Byte] =
      if (!has(offset, FrameSize)) null
      else {
        val length = buffer.getInt((offset - start).toInt)
        if (length <= 0 || length > LargestContent || !has(offset, FrameSize + length)) null
        else payloadOf((offset - start).toInt, length, key)
      }

    private def payloadOf(at: Int, length: Int, key: CallKey): Array[Byte] =
      if (!isEntry(buffer, at, length) || !isAnswer(buffer, at) || keyAt(buffer, at) != key) null
      else payloadAt(buffer, at)

    private def has(offset: Long, size: Int): Boolean = isThere(offset, size) || {
      fill(offset, size)
      isThere(offset, size)
    }

    private def isThere(offset: Long, size: Int): Boolean =
      offset >= start && offset + size <= start + filled

    private def fill(offset: Long, size: Int): Unit = {
      val goesOn = offset >= start && offset <= start + filled + wanted
      wanted = if (goesOn) math.min(Largest, 2 * wanted) else Smallest
      if (buffer.capacity < math.max(wanted, size)) buffer = ByteBuffer.allocate(math.max(wanted, size))
      start = offset
      filled = 0
      var count = 1
      while (filled < math.max(wanted, size) && count > 0) {
        count = in.read(start + filled, buffer.array, filled, math.max(wanted, size) - filled)
        if (count > 0) filled += count
      }
    }

    /** Opens the file anew; always true. */
    def reopen(): Boolean = {
      in.close()
      filled = 0
      in = files.open(name)
      true
    }

    override def close(): Unit = in.close()
  }
}

private object SegmentReader {
  private final val MostWindows = 8
  private final val Smallest = 1 << 13
  private final val Largest = 1 << 18
}
