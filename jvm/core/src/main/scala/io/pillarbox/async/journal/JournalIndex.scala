package io.pillarbox.async.journal

/** Where the newest record of a key is. */
private[journal] final case class RecordPlace(timeMs: Long, segment: Int, offset: Long)

/**
 * The records of all segments by key, in 32 bytes each, in a table that is at most two thirds full.
 * Thread-safe.
 */
private[journal] final class JournalIndex {
  import JournalIndex._

  private var slots = FirstSlots
  private var count = 0
  private var keys = new Array[Long](2 * slots)
  private var times = new Array[Long](slots)

  /** Segment and offset; 0 is a free slot, which no record's place is. */
  private var places = new Array[Long](slots)

  def size: Int = synchronized(count)

  /** Null if there is none. */
  def find(key: CallKey): RecordPlace = synchronized {
    val slot = slotOf(key)
    val place = places(slot)
    if (place == 0) null
    else RecordPlace(times(slot), (place >>> OffsetBits).toInt, place & LargestOffset)
  }

  /**
   * @param isNewest
   *   whether it replaces a record whatever its time; otherwise only one that is not younger
   */
  def put(key: CallKey, timeMs: Long, segment: Int, offset: Long, isNewest: Boolean): Unit = synchronized {
    require(offset > 0 && offset <= LargestOffset && segment < MostSegments, s"$offset in segment $segment")
    var slot = slotOf(key)
    if (places(slot) == 0) {
      if (3L * (count + 1) > 2L * slots) {
        grow()
        slot = slotOf(key)
      }
      count += 1
      fill(slot, key.high, key.low, timeMs, placeOf(segment, offset))
    } else if (isNewest || timeMs >= times(slot)) {
      times(slot) = timeMs
      places(slot) = placeOf(segment, offset)
    }
  }

  private def placeOf(segment: Int, offset: Long): Long = segment.toLong << OffsetBits | offset

  private def slotOf(key: CallKey): Int = slotOf(key.high, key.low)

  private def slotOf(high: Long, low: Long): Int = {
    var slot = (low ^ (low >>> 32)).toInt & (slots - 1)
    while (places(slot) != 0 && (keys(2 * slot) != high || keys(2 * slot + 1) != low))
      slot = (slot + 1) & (slots - 1)
    slot
  }

  private def fill(slot: Int, high: Long, low: Long, timeMs: Long, place: Long): Unit = {
    keys(2 * slot) = high
    keys(2 * slot + 1) = low
    times(slot) = timeMs
    places(slot) = place
  }

  private def grow(): Unit = {
    val (oldKeys, oldTimes, oldPlaces) = (keys, times, places)
    require(slots < MostSlots, s"A journal of $count answers is full: use several")
    slots *= 2
    keys = new Array[Long](2 * slots)
    times = new Array[Long](slots)
    places = new Array[Long](slots)
    var i = 0
    while (i < oldPlaces.length) {
      if (oldPlaces(i) != 0) {
        val (high, low) = (oldKeys(2 * i), oldKeys(2 * i + 1))
        fill(slotOf(high, low), high, low, oldTimes(i), oldPlaces(i))
      }
      i += 1
    }
  }
}

private object JournalIndex {
  private final val FirstSlots = 1 << 10
  private final val MostSlots = 1 << 29
  private final val OffsetBits = 40
  private final val LargestOffset = (1L << OffsetBits) - 1
  private final val MostSegments = 1 << 23
}
