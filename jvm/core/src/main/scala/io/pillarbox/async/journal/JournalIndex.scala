package io.pillarbox.async.journal

private[journal] final case class RecordPlace(segment: Int, offset: Long)

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
 * The newest records of all segments by key, in 32 bytes each, in a table that is at most two thirds full.
 * When it is full, those that no longer count leave it. Thread-safe.
 */
private[journal] final class JournalIndex(age: RecordAge) {
  import JournalIndex._

  private var slots = FirstSlots
  private var count = 0
  private var keys = new Array[Long](2 * slots)
  private var times = new Array[Long](slots)

  /** Segment and offset; 0 is a free slot, which no record's place is. */
  private var places = new Array[Long](slots)

  def size: Int = synchronized(count)

  /** Finds the record of the key; null if there is none that counts. */
  def find(key: CallKey): RecordPlace = synchronized {
    val slot = slotOf(key)
    val place = places(slot)
    if (place == 0 || !age.counts(times(slot), age.nowMs)) null
    else RecordPlace((place >>> OffsetBits).toInt, place & LargestOffset)
  }

  /**
   * @param isNewest true if it replaces a record whatever its time; otherwise only one that is not younger or
   *   doesn't count
   */
  def put(key: CallKey, timeMs: Long, segment: Int, offset: Long, isNewest: Boolean): Unit = synchronized {
    require(offset > 0 && offset <= LargestOffset && segment < MostSegments, s"$offset in segment $segment")
    var slot = slotOf(key)
    if (places(slot) == 0) {
      if (3L * (count + 1) > 2L * slots) {
        makeRoom()
        slot = slotOf(key)
      }
      count += 1
      fill(slot, key.high, key.low, timeMs, placeOf(segment, offset))
    } else if (isNewest || timeMs >= times(slot) || !age.counts(times(slot), age.nowMs)) {
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

  /** Makes a larger table, unless more than half of the records have left. */
  private def makeRoom(): Unit = {
    val (oldKeys, oldTimes, oldPlaces) = (keys, times, places)
    val now = age.nowMs
    def stays(i: Int) = oldPlaces(i) != 0 && age.counts(oldTimes(i), now)
    count = oldPlaces.indices.count(stays)
    if (3L * (count + 1) > slots) {
      require(slots < MostSlots, s"A journal of $count answers is full: use several")
      slots *= 2
    }
    keys = new Array[Long](2 * slots)
    times = new Array[Long](slots)
    places = new Array[Long](slots)
    oldPlaces.indices.foreach { i =>
      if (stays(i)) {
        val (high, low) = (oldKeys(2 * i), oldKeys(2 * i + 1))
        fill(slotOf(high, low), high, low, oldTimes(i), oldPlaces(i))
      }
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
