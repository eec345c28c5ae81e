package io.pillarbox.state.heap

import java.util

/**
 * The columns and the index that [[KeyTable]] and [[MapTable]] share. Not thread-safe.
 *
 * An entry is a position in the columns. It never moves; the position is reused once it is freed. If the table tracks
 * changes, an entry that a commit has seen stays as a tombstone until the next commit has told of its removal.
 *
 * @param hasTimestamps whether there is a column of them; Long.MaxValue where nothing may expire
 * @param tracksChanges whether [[touch]] notes entries for the next commit
 */
private[heap] abstract class DenseTable(hasTimestamps: Boolean, tracksChanges: Boolean) {
  import DenseTable._

  /** Hash in the upper half, position + 1 in the lower; 0 is free. At most half full. */
  protected var index: Array[Long] = new Array[Long](InitialIndex)
  protected var shift: Int = 32 - Integer.numberOfTrailingZeros(InitialIndex)

  /** By position; of a free position, the next free one. */
  protected var hashes: Array[Int] = new Array[Int](InitialEntries)

  final var timestamps: Array[Long] = if (hasTimestamps) filled(InitialEntries) else null
  private[this] var flags: Array[Byte] = if (tracksChanges) new Array[Byte](InitialEntries) else null
  private[this] var firstFree = -1
  private[this] var indexed = 0

  /** All positions are below this. */
  final var highWater = 0

  /** Changes with every removal: positions kept elsewhere must be looked up again. */
  final var removals = 0

  private[this] var dirty: Array[Int] = if (tracksChanges) new Array[Int](InitialEntries) else null
  private[this] var dirtyCount = 0
  private[this] var cursor = 0

  /** Enlarges the subclass's columns. */
  protected def growColumns(capacity: Int): Unit

  /** Drops what the position refers to. */
  protected def clearColumns(entry: Int): Unit

  /** Whether the position is in use (perhaps by a tombstone). */
  def isUsed(entry: Int): Boolean

  /** Tombstones included. */
  final def used: Int = indexed

  protected final def firstSlot(hash: Int): Int = (hash * Phi) >>> shift

  /** A position for a new entry of this hash, entered into the index. */
  protected final def allocate(hash: Int): Int = {
    val entry = takePosition()
    if ((indexed + 1) * 2 > index.length) enlargeIndex()
    hashes(entry) = hash
    enter(hash, entry)
    indexed += 1
    entry
  }

  /** Takes the entry out of the index and frees its position. */
  final def free(entry: Int): Unit = {
    leaveIndex(entry)
    clearColumns(entry)
    if (timestamps != null) timestamps(entry) = Long.MaxValue
    if (flags != null) flags(entry) = (flags(entry) & Dirty).toByte
    hashes(entry) = firstFree
    firstFree = entry
    indexed -= 1
    removals += 1
  }

  /** Notes that the entry changed since the last commit. */
  final def touch(entry: Int): Unit =
    if (flags != null && (flags(entry) & Dirty) == 0) {
      flags(entry) = (flags(entry) | Dirty).toByte
      if (dirtyCount == dirty.length) dirty = util.Arrays.copyOf(dirty, dirtyCount * 2)
      dirty(dirtyCount) = entry
      dirtyCount += 1
    }

  /** Whether the last commit told of this entry. */
  final def isCommitted(entry: Int): Boolean = flags != null && (flags(entry) & Committed) != 0

  final def markCommitted(entry: Int): Unit =
    if (flags != null) flags(entry) = (flags(entry) | Committed).toByte

  final def markUncommitted(entry: Int): Unit =
    if (flags != null) flags(entry) = (flags(entry) & ~Committed).toByte

  /** The changed entries, those freed meanwhile left out. */
  final def forEachChanged(action: Int => Unit): Unit = {
    var i = 0
    while (i < dirtyCount) {
      if (isUsed(dirty(i))) action(dirty(i))
      i += 1
    }
  }

  /** All changed entries are now committed ones; `afterwards` sees each and may free it. */
  final def commitChanges(afterwards: Int => Unit): Unit = {
    var i = 0
    while (i < dirtyCount) {
      val entry = dirty(i)
      flags(entry) = if (isUsed(entry)) Committed else 0
      if (isUsed(entry)) afterwards(entry)
      i += 1
    }
    dirtyCount = 0
    if (dirty.length > MaxIdleDirty) dirty = new Array[Int](InitialEntries)
  }

  /**
   * Looks at the next `count` positions, round and round, and hands those with a timestamp up to `limit` to `expire`,
   * which may free them.
   */
  final def sweep(count: Int, limit: Long, expire: PositionAction): Unit = {
    val all = math.min(count, highWater)
    val from = if (cursor >= highWater) 0 else cursor
    val first = math.min(all, highWater - from)
    sweepRange(from, from + first, limit, expire)
    if (first < all) sweepRange(0, all - first, limit, expire)
    cursor = if (first < all) all - first else from + first
  }

  /** Counts first, as there mostly is nothing: a loop without a branch or a call on what it finds. */
  private[this] def sweepRange(from: Int, until: Int, limit: Long, expire: PositionAction): Unit = {
    val stamps = timestamps
    var found = 0
    var at = from
    while (at < until) {
      found += (if (stamps(at) <= limit) 1 else 0)
      at += 1
    }
    if (found > 0) expireRange(from, until, limit, expire)
  }

  private[this] def expireRange(from: Int, until: Int, limit: Long, expire: PositionAction): Unit = {
    var at = from
    while (at < until) {
      if (timestamps(at) <= limit) expire(at)
      at += 1
    }
  }

  private[this] def takePosition(): Int =
    if (firstFree >= 0) {
      val entry = firstFree
      firstFree = hashes(entry)
      entry
    } else {
      if (highWater == hashes.length) enlargeColumns()
      highWater += 1
      highWater - 1
    }

  private[this] def enter(hash: Int, entry: Int): Unit = {
    val mask = index.length - 1
    var slot = firstSlot(hash)
    while (index(slot) != 0L) slot = (slot + 1) & mask
    index(slot) = (hash.toLong << 32) | (entry + 1)
  }

  private[this] def leaveIndex(entry: Int): Unit = {
    val mask = index.length - 1
    var hole = firstSlot(hashes(entry))
    while (index(hole).toInt != entry + 1) hole = (hole + 1) & mask
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

  private[this] def enlargeIndex(): Unit = {
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

  private[this] def enlargeColumns(): Unit = {
    val old = hashes.length
    val capacity = old + math.max(old >> 1, InitialEntries)
    hashes = util.Arrays.copyOf(hashes, capacity)
    if (timestamps != null) {
      timestamps = util.Arrays.copyOf(timestamps, capacity)
      util.Arrays.fill(timestamps, old, capacity, Long.MaxValue)
    }
    if (flags != null) flags = util.Arrays.copyOf(flags, capacity)
    growColumns(capacity)
  }
}

/** What is done with a position; a class of its own, so that calling it boxes nothing. */
private[heap] trait PositionAction {
  def apply(entry: Int): Unit
}

private[heap] object DenseTable {
  final val InitialEntries = 16
  final val InitialIndex = 32

  /** 2^32 divided by the golden ratio: Fibonacci hashing (Knuth, TAOCP 3, 6.4). */
  final val Phi = 0x9e3779b9
  private final val Dirty: Byte = 1
  private final val Committed: Byte = 2
  private final val MaxIdleDirty = 1 << 16

  private def filled(capacity: Int): Array[Long] = {
    val stamps = new Array[Long](capacity)
    util.Arrays.fill(stamps, Long.MaxValue)
    stamps
  }
}
