package io.pillarbox.async.journal

import java.io.IOException
import java.nio.ByteBuffer
import java.util

/** Reads the answers of a segment in their order. One thread. */
private[journal] final class SegmentScan(in: JournalInput, name: String) {
  import SegmentFormat._

  private var buffer = ByteBuffer.allocate(1 << 18)
  private var start = 0L
  private var filled = 0

  /**
   * Visits the whole answers from `from` on, each with its key, time and place.
   *
   * @param from the result of an earlier scan of the same segment, or 0
   * @return the end of the last whole entry
   */
  @throws[IOException]
  def run(from: Long)(visit: (CallKey, Long, Long) => Unit): Long = {
    start = from
    filled = 0
    var end = from
    if (from == 0 && hasHeader) end = HeaderSize.toLong
    if (end > 0)
      while (hasEntryAt(end)) {
        val at = (end - start).toInt
        if (isAnswer(buffer, at)) visit(keyAt(buffer, at), timeAt(buffer, at), end)
        end += FrameSize + buffer.getInt(at)
      }
    end
  }

  private def hasHeader: Boolean = has(0L, HeaderSize) && {
    val isOurs = util.Arrays.equals(buffer.array, 0, Magic.length, Magic, 0, Magic.length)
    val version = buffer.getInt(Magic.length)
    if (isOurs && version != Version)
      throw new IOException(
        s"$name has format version $version, this Pillarbox reads $Version: use the release that wrote it, " +
          "or another folder"
      )
    isOurs
  }

  private def hasEntryAt(place: Long): Boolean = has(place, FrameSize) && {
    val length = buffer.getInt((place - start).toInt)
    length > 0 && length <= LargestContent && has(place, FrameSize + length) &&
    isEntry(buffer, (place - start).toInt, length)
  }

  /** True if the file has this many bytes there; then they are in the buffer. */
  private def has(place: Long, size: Int): Boolean = {
    if (place + size > start + filled) moveTo(place)
    while (place + size > start + filled && readOn(size)) {}
    place + size <= start + filled
  }

  private def moveTo(place: Long): Unit = {
    val dropped = (place - start).toInt
    System.arraycopy(buffer.array, dropped, buffer.array, 0, filled - dropped)
    start = place
    filled -= dropped
  }

  /** Grows the buffer as far as bytes come, since a damaged length may say anything. */
  private def readOn(size: Int): Boolean = {
    if (filled == buffer.capacity && filled < size)
      buffer =
        ByteBuffer.wrap(util.Arrays.copyOf(buffer.array, math.min(2L * filled, Int.MaxValue - 8L).toInt))
    val count = in.read(start + filled, buffer.array, filled, buffer.capacity - filled)
    if (count > 0) filled += count
    count > 0
  }
}
