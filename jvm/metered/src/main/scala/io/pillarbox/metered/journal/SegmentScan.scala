package io.pillarbox.metered.journal

import java.io.IOException
import java.nio.ByteBuffer
import java.util

/**
 * Reads the entries of a segment in their order, each once `next` has moved to it. One thread.
 *
 * @param from the `end` of an earlier scan of the same segment, or 0
 */
private[journal] final class SegmentScan(in: JournalInput, name: String, from: Long = 0L) {
  import SegmentFormat._

  private var start = from
  private var filled = 0

  /** The bytes around the present entry, which is at `at` in them until the next call of `next`. */
  var buffer: ByteBuffer = ByteBuffer.allocate(1 << 18)
  var at: Int = 0

  /** Where the present entry stands in the segment. */
  var offset: Long = from

  /** Where it ends; and in the end, where the last whole entry does. */
  var end: Long = from

  /** Moves to the next whole entry; false if there is none. */
  @throws[IOException]
  def next(): Boolean = (end > 0 || pastHeader()) && hasEntryAt(end) && {
    offset = end
    at = (end - start).toInt
    end += size
    true
  }

  /** The bytes of the present entry. */
  def size: Int = FrameSize + buffer.getInt(at)

  private def pastHeader(): Boolean = hasHeader && {
    end = HeaderSize.toLong
    true
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
