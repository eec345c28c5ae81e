package io.pillarbox.metered.journal

/**
 * A table of records by key, in 32 bytes each, that is at most two thirds full. When it is full, records that
 * no longer count leave it, or it grows. One thread at a time.
 */
private[journal] final class IndexTable(age: RecordAge, mostSlots: Int) {
  import IndexTable._

  private var slots = math.min(FirstSlots, mostSlots)
  private var count = 0
  private var keys = new Array[Long](2 * slots)
  private var times = new Array[Long](slots)

  /** 0 is a free slot, which no record's place is. */
  private var places = new Array[Long](slots)

  def size: Int = count

  /** True if it can take no other key, once those are gone that no longer count. */
  def isFull: Boolean = {
    if (isCrowded) makeRoom()
    isCrowded
  }

  private def isCrowded: Boolean = 3L * (count + 1) > 2L * slots

  /** Finds the record of the key, whether it counts or not; null if there is none. */
  def find(key: CallKey): IndexEntry = {
    val slot = slotOf(key.high, key.low)
    if (places(slot) == 0) null else entryAt(slot)
  }

  private def entryAt(slot: Int) =
    new IndexEntry(keys(2 * slot), keys(2 * slot + 1), times(slot), places(slot))

  /** Puts a record where `isFull` was false; see [[JournalIndex.put]]. */
  def put(key: CallKey, timeMs: Long, place: Long, isNewest: Boolean): Unit = {
    val slot = slotOf(key.high, key.low)
    if (places(slot) == 0) {
      count += 1
      fill(slot, key.high, key.low, timeMs, place)
    } else if (isNewest || timeMs >= times(slot) || !age.counts(times(slot), age.nowMs))
      fill(slot, key.high, key.low, timeMs, place)
  }

  /** The records that count, sorted by their keys. The table may not change before it ends. */
  def sorted(): Iterator[IndexEntry] = {
    val now = age.nowMs
    // The upper bits of a key, and its slot: these sort fast, and no two keys are alike in them by chance.
    val order = new Array[Long](count)
    var n = 0
    places.indices.foreach { slot =>
      if (places(slot) != 0 && age.counts(times(slot), now)) {
        order(n) = (keys(2 * slot) & ~(slots - 1L)) | slot
        n += 1
      }
    }
    java.util.Arrays.sort(order, 0, n)
    var i = 1
    while (i < n) {
      var j = i
      while (j > 0 && isBehind(slotIn(order, j - 1), slotIn(order, j))) {
        val moved = order(j)
        order(j) = order(j - 1)
        order(j - 1) = moved
        j -= 1
      }
      i += 1
    }
    Iterator.range(0, n).map(at => entryAt(slotIn(order, at)))
  }

  private def slotIn(order: Array[Long], at: Int): Int = (order(at) & (slots - 1)).toInt

  private def isBehind(one: Int, other: Int): Boolean = {
    val (left, right) = (keys(2 * one), keys(2 * other))
    left > right || (left == right && keys(2 * one + 1) > keys(2 * other + 1))
  }

  def clear(): Unit = {
    java.util.Arrays.fill(places, 0L)
    count = 0
  }

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

  /** Makes a larger table, unless half of the records have left, or it is the largest. */
  private def makeRoom(): Unit = {
    val (oldKeys, oldTimes, oldPlaces) = (keys, times, places)
    val now = age.nowMs
    def stays(i: Int) = oldPlaces(i) != 0 && age.counts(oldTimes(i), now)
    val staying = oldPlaces.indices.count(stays)
    val isHalfFree = 3L * (staying + 1) <= slots
    if (isHalfFree || slots < mostSlots) {
      if (!isHalfFree) slots *= 2
      count = staying
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
}

private object IndexTable {
  private final val FirstSlots = 1 << 10
}
