package io.pillarbox.state.heap

import java.util

/**
 * The columns and the index that [[KeyTable]] and [[MapTable]] share. Not thread-safe. A `HashMap` would take
 * two objects an entry, and has no lasting position, which the sweep and commits need.
 *
 * The layout is that of the "compact dict" of Raymond Hettinger (Python 3.6), with linear probing: columns
 * that entries fill densely, and an index of longs into them. An entry is a position in the columns. It
 * never moves; the position is reused once it is freed. If the table tracks changes, an entry that a commit
 * has seen stays as a tombstone until the next commit has written its removal.
 *
 * @param hasTimestamps true if there is a column of them; Long.MaxValue where nothing may expire
 * @param tracksChanges true if [[touch]] marks entries for the next commit
 */
private[heap] abstract class DenseTable(hasTimestamps: Boolean, tracksChanges: Boolean) {
  import DenseTable._

  /**
   * Hash in the upper half, then two flags, then position + 1; 0 is free. At most half full.
   *
   * The flags are here because a change of an entry has just read this word: a separate column would cost one
   * more miss of the processor's caches for every write.
   */
  protected var index: Array[Long] = new Array[Long](InitialIndex)
  protected var shift: Int = 32 - Integer.numberOfTrailingZeros(InitialIndex)

  /** The slot of the last found entry: a guess that [[slotOf]] checks. */
  protected var lastSlot = 0

  /** The hash of each position; of a free one twice the next free position, plus 1 if it is changed. */
  protected var hashes: Array[Int] = new Array[Int](InitialEntries)

  final var timestamps: Array[Long] = if (hasTimestamps) filled(InitialEntries) else null
  private var firstFree = -1
  private var indexed = 0

  /** The bound below which all positions are. */
  final var highWater = 0

  /** Changes with every removal: kept positions must be looked up again. */
  final var removals = 0

  private var dirty: Array[Int] = if (tracksChanges) new Array[Int](InitialEntries) else null
  private var dirtyCount = 0
  private var cursor = 0

  /** Enlarges the subclass's columns. */
  protected def growColumns(capacity: Int): Unit

  /** Drops the references of the position. */
  protected def clearColumns(entry: Int): Unit

  /** True if the position is in use (perhaps by a tombstone). */
  def isUsed(entry: Int): Boolean

  /** The number of entries, with tombstones. */
  final def used: Int = indexed

  protected final def firstSlot(hash: Int): Int = (hash * Phi) >>> shift

  /** Takes a position for a new entry of this hash, and enters it into the index. */
  protected final def allocate(hash: Int): Int = {
    val isReused = firstFree >= 0
    val entry = takePosition()
    if ((indexed + 1) * 2 > index.length) enlargeIndex()
    val flags = if (isReused && (hashes(entry) & 1) != 0) Dirty else 0L
    hashes(entry) = hash
    enter(hash, entry, flags)
    indexed += 1
    entry
  }

  /** Takes the entry out of the index and frees its position. */
  final def free(entry: Int): Unit = {
    val slot = slotOf(entry)
    val wasDirty = (index(slot) & Dirty) != 0
    leaveIndex(slot)
    clearColumns(entry)
    if (timestamps != null) timestamps(entry) = Long.MaxValue
    hashes(entry) = (firstFree << 1) | (if (wasDirty) 1 else 0)
    firstFree = entry
    indexed -= 1
    removals += 1
  }

  /** Marks the entry as changed since the last commit. */
  final def touch(entry: Int): Unit = if (tracksChanges) {
    val slot = slotOf(entry)
    if ((index(slot) & Dirty) == 0) {
      index(slot) |= Dirty
      if (dirtyCount == dirty.length) dirty = util.Arrays.copyOf(dirty, dirtyCount * 2)
      dirty(dirtyCount) = entry
      dirtyCount += 1
    }
  }

  final def isCommitted(entry: Int): Boolean = tracksChanges && (index(slotOf(entry)) & Committed) != 0

  final def markCommitted(entry: Int): Unit = if (tracksChanges) index(slotOf(entry)) |= Committed

  final def markUncommitted(entry: Int): Unit = index(slotOf(entry)) &= ~Committed

  /** Calls `action` with the changed entries, without those that were freed. */
  final def forEachChanged(action: Int => Unit): Unit = {
    var i = 0
    while (i < dirtyCount) {
      if (isUsed(dirty(i))) action(dirty(i))
      i += 1
    }
  }

  /** Makes all changed entries committed ones; `afterwards` sees each and may free it. */
  final def commitChanges(afterwards: Int => Unit): Unit = {
    var i = 0
    while (i < dirtyCount) {
      val entry = dirty(i)
      if (isUsed(entry)) {
        val slot = slotOf(entry)
        index(slot) = (index(slot) & ~Dirty) | Committed
        afterwards(entry)
      } else hashes(entry) &= ~1
      i += 1
    }
    dirtyCount = 0
    if (dirty.length > MaxIdleDirty) dirty = new Array[Int](InitialEntries)
  }

  /**
   * Looks at the next `count` positions, round and round, and hands those with a timestamp up to `limit` to
   * `expire`, which may free them.
   */
  final def sweep(count: Int, limit: Long, expire: PositionAction): Unit = {
    val all = math.min(count, highWater)
    val from = if (cursor >= highWater) 0 else cursor
    val first = math.min(all, highWater - from)
    sweepRange(from, from + first, limit, expire)
    if (first < all) sweepRange(0, all - first, limit, expire)
    cursor = if (first < all) all - first else from + first
  }

  /** Counts first, as there mostly is nothing, in a loop without branches or calls. */
  private def sweepRange(from: Int, until: Int, limit: Long, expire: PositionAction): Unit = {
    val times = timestamps
    var found = 0
    var at = from
    while (at < until) {
      found += (if (times(at) <= limit) 1 else 0)
      at += 1
    }
    if (found > 0) expireRange(from, until, limit, expire)
  }

  private def expireRange(from: Int, until: Int, limit: Long, expire: PositionAction): Unit = {
    var at = from
    while (at < until) {
      if (timestamps(at) <= limit) expire(at)
      at += 1
    }
  }

  private def takePosition(): Int =
    if (firstFree >= 0) {
      val entry = firstFree
      firstFree = hashes(entry) >> 1
      entry
    } else {
      if (highWater == hashes.length) enlargeColumns()
      highWater += 1
      highWater - 1
    }

  private def enter(hash: Int, entry: Int, flags: Long): Unit = {
    val mask = index.length - 1
    var slot = firstSlot(hash)
    while (index(slot) != 0L) slot = (slot + 1) & mask
    index(slot) = (hash.toLong << 32) | flags | (entry + 1)
    lastSlot = slot
  }

  /** @throws IllegalStateException if the entry is not in the index */
  private def slotOf(entry: Int): Int = {
    if (positionAt(index(lastSlot)) != entry) {
      val mask = index.length - 1
      var slot = firstSlot(hashes(entry))
      while (positionAt(index(slot)) != entry) {
        if (index(slot) == 0L) throw new IllegalStateException(s"There is no entry at position $entry")
        slot = (slot + 1) & mask
      }
      lastSlot = slot
    }
    lastSlot
  }

  /** Backward-shift deletion. */
  private def leaveIndex(slot: Int): Unit = {
    val mask = index.length - 1
    var hole = slot
    var next = (hole + 1) & mask
    while (index(next) != 0L) {
      val home = firstSlot((index(next) >>> 32).toInt)
      if (((next - home) & mask) >= ((next - hole) & mask)) {
        index(hole) = index(next)
        hole = next
      }
      next = (next + 1) & mask
    }
    index(hole) = 0L
  }

  private def enlargeIndex(): Unit = {
    val old = index
    index = new Array[Long](old.length * 2)
    shift -= 1
    val mask = index.length - 1
    var i = 0
    while (i < old.length) {
      val word = old(i)
      if (word != 0L) {
        var slot = firstSlot((word >>> 32).toInt)
        while (index(slot) != 0L) slot = (slot + 1) & mask
        index(slot) = word
      }
      i += 1
    }
  }

  private def enlargeColumns(): Unit = {
    val old = hashes.length
    val capacity = old + math.max(old >> 1, InitialEntries)
    hashes = util.Arrays.copyOf(hashes, capacity)
    if (timestamps != null) {
      timestamps = util.Arrays.copyOf(timestamps, capacity)
      util.Arrays.fill(timestamps, old, capacity, Long.MaxValue)
    }
    growColumns(capacity)
  }
}

/** Acts on a position; not a function type, so that calling it boxes nothing. */
private[heap] trait PositionAction {
  def apply(entry: Int): Unit
}

private[heap] object DenseTable {
  final val InitialEntries = 16
  final val InitialIndex = 32

  /** 2^32 divided by the golden ratio: Fibonacci hashing (Knuth, TAOCP 3, 6.4). */
  final val Phi = 0x9e3779b9

  /** Flags in a word of the index: among the changed entries; in the last commit. */
  private final val Dirty = 1L << 30
  private final val Committed = 1L << 31
  private final val Positions = (1 << 30) - 1
  private final val MaxIdleDirty = 1 << 16

  /** The position that a word of the index holds, -1 for a free slot. */
  def positionAt(word: Long): Int = (word.toInt & Positions) - 1

  private def filled(capacity: Int): Array[Long] = {
    val timestamps = new Array[Long](capacity)
    util.Arrays.fill(timestamps, Long.MaxValue)
    timestamps
  }
}
