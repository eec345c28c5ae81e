package io.pillarbox.state.rocksdb.cache

import java.util

import io.pillarbox.api.{Bytes, OutputView}

/**
 * Entries of several column families by their bytes, in one arena: entries that were read, and that were
 * written but aren't in RocksDB or in a commit yet. Allocates nothing once it has grown, as maps and caches
 * of objects would with every entry. Not thread-safe.
 *
 * Entries only leave all at once, by [[clear]].
 *
 * @param ownLimit the bytes that it may have in any case
 * @param shared the budget for more
 */
private[rocksdb] final class WriteBackCache(ownLimit: Int, shared: CacheBudget) extends AutoCloseable {
  import WriteBackCache._

  private var index = new Array[Long](1024)
  private var shift = 22
  private var columns = new Array[Int](512)
  private var keyAt = new Array[Int](512)
  private var keyLengths = new Array[Int](512)
  private var valueAt = new Array[Int](512)
  private var valueLengths = new Array[Int](512)
  private var valueRoom = new Array[Int](512)
  private var flags = new Array[Byte](512)
  private val arena = new OutputView(16 << 10)
  private var limit = ownLimit
  shared.join()

  /** The number of entries, whose names are 0 until this. */
  var size = 0

  /** True if it is time for [[clear]]: no room is left, and there is no more to be had. */
  def isFull: Boolean = used >= limit && !growLimit() || used > ownLimit && used > shared.most

  /** The memory of the entries, in bytes. */
  def used: Long = arena.length.toLong + size.toLong * EntryBytes

  def bytes: Array[Byte] = arena.array

  def column(entry: Int): Int = columns(entry)

  def keyOffset(entry: Int): Int = keyAt(entry)

  def keyLength(entry: Int): Int = keyLengths(entry)

  def valueOffset(entry: Int): Int = valueAt(entry)

  /** The length of the value; [[Absent]] if it is known that there is none. */
  def valueLength(entry: Int): Int = valueLengths(entry)

  def has(entry: Int, flag: Int): Boolean = (flags(entry) & flag) != 0

  def isUnwritten(entry: Int): Boolean = has(entry, Unwritten)

  def isChanged(entry: Int): Boolean = has(entry, Changed)

  /** True if the value, or its absence, is that of the database or newer. */
  def isKnown(entry: Int): Boolean = has(entry, Known)

  /** True if the value is only the end of one, to be added to the database's. */
  def isPartial(entry: Int): Boolean = has(entry, Partial)

  def mark(entry: Int, flag: Int): Unit = flags(entry) = (flags(entry) | flag).toByte

  def unmark(entry: Int, flag: Int): Unit = flags(entry) = (flags(entry) & ~flag).toByte

  /** Finds the entry of this key, or -1. */
  def find(column: Int, key: Array[Byte], keyLength: Int): Int = {
    val hash = hashOf(column, key, keyLength)
    val mask = index.length - 1
    var slot = (hash * Phi) >>> shift
    var found = -2
    while (found == -2) {
      val word = index(slot)
      if (word == 0L) found = -1
      else if ((word >>> 32).toInt == hash && matches(word.toInt - 1, column, key, keyLength))
        found = word.toInt - 1
      slot = (slot + 1) & mask
    }
    found
  }

  def findOrAdd(column: Int, key: Array[Byte], keyLength: Int): Int = {
    val found = find(column, key, keyLength)
    if (found >= 0) found else add(column, key, keyLength)
  }

  /** True if the entry's key is from `from` (included) to `until` (excluded). */
  def isBetween(entry: Int, from: Array[Byte], until: Array[Byte]): Boolean =
    compareKey(entry, from) >= 0 && compareKey(entry, until) < 0

  private def compareKey(entry: Int, other: Array[Byte]): Int = {
    val at = keyAt(entry)
    util.Arrays.compareUnsigned(arena.array, at, at + keyLengths(entry), other, 0, other.length)
  }

  /** True if this is the entry of the key; any number is allowed. */
  def isAt(entry: Int, column: Int, key: Array[Byte], keyLength: Int): Boolean =
    entry >= 0 && entry < size && matches(entry, column, key, keyLength)

  /** Adds a key that [[find]] did not find. Its value is absent, its flags are unset. */
  def add(column: Int, key: Array[Byte], keyLength: Int): Int = {
    if (size == columns.length) enlarge()
    val entry = size
    size += 1
    columns(entry) = column
    keyAt(entry) = arena.length
    keyLengths(entry) = keyLength
    arena.writeBytes(key, 0, keyLength)
    valueLengths(entry) = Absent
    valueRoom(entry) = 0
    flags(entry) = 0
    if (size * 2 > index.length) enlargeIndex() else enter(index, hashOf(column, key, keyLength), entry)
    entry
  }

  /** Sets the value, in place if there is room. */
  def setValue(entry: Int, value: Array[Byte], length: Int): Unit = {
    if (length > valueRoom(entry)) {
      valueAt(entry) = arena.length
      valueRoom(entry) = length
      arena.writeBytes(value, 0, length)
    } else System.arraycopy(value, 0, arena.array, valueAt(entry), length)
    valueLengths(entry) = length
  }

  /** Adds to the end of the value. */
  def append(entry: Int, bytes: Array[Byte], length: Int): Unit = {
    val old = valueLengths(entry)
    if (old + length > valueRoom(entry)) makeRoom(entry, 2 * (old + length))
    System.arraycopy(bytes, 0, arena.array, valueAt(entry) + old, length)
    valueLengths(entry) = old + length
  }

  /** Adds before the value. */
  def prepend(entry: Int, bytes: Array[Byte], length: Int): Unit = {
    val own = valueLengths(entry)
    val at = arena.length
    arena.reserve(length + own)
    arena.writeBytes(bytes, 0, length)
    arena.writeBytes(arena.array, valueAt(entry), own)
    valueAt(entry) = at
    valueRoom(entry) = length + own
    valueLengths(entry) = length + own
  }

  /** Moves the value to a place with room. */
  private def makeRoom(entry: Int, room: Int): Unit = {
    val at = arena.length
    arena.reserve(room)
    arena.writeBytes(arena.array, valueAt(entry), valueLengths(entry))
    arena.skip(room - valueLengths(entry))
    valueAt(entry) = at
    valueRoom(entry) = room
  }

  def setAbsent(entry: Int): Unit = valueLengths(entry) = Absent

  def clear(): Unit = {
    if (limit > ownLimit) shrink() else util.Arrays.fill(index, 0L)
    arena.clear()
    arena.shrinkTo(2 * ownLimit)
    size = 0
    giveBack()
  }

  /** Gives its part of the budget back; the cache must not be used again. */
  override def close(): Unit = {
    giveBack()
    shared.leave()
  }

  private def growLimit(): Boolean = {
    val step = math.max(1, ownLimit / 2)
    val grows = limit <= MaxLimit - step && shared.tryTake(step.toLong)
    if (grows) limit += step
    grows
  }

  private def giveBack(): Unit = {
    if (limit > ownLimit) shared.giveBack((limit - ownLimit).toLong)
    limit = ownLimit
  }

  private def matches(entry: Int, column: Int, key: Array[Byte], keyLength: Int): Boolean =
    columns(entry) == column && keyLengths(entry) == keyLength &&
      util.Arrays.equals(arena.array, keyAt(entry), keyAt(entry) + keyLength, key, 0, keyLength)

  private def hashOf(column: Int, key: Array[Byte], keyLength: Int): Int =
    Bytes.hash(key, 0, keyLength) + column * 0x85ebca6b

  private def enter(into: Array[Long], hash: Int, entry: Int): Unit = {
    val mask = into.length - 1
    var slot = (hash * Phi) >>> shift
    while (into(slot) != 0L) slot = (slot + 1) & mask
    into(slot) = (hash.toLong << 32) | (entry + 1)
  }

  private def enlargeIndex(): Unit = {
    val larger = new Array[Long](index.length * 2)
    shift -= 1
    var entry = 0
    while (entry < size) {
      val hash = Bytes.hash(arena.array, keyAt(entry), keyLengths(entry)) + columns(entry) * 0x85ebca6b
      enter(larger, hash, entry)
      entry += 1
    }
    index = larger
  }

  private def enlarge(): Unit = resize(size * 2)

  private def shrink(): Unit = {
    index = new Array[Long](1024)
    shift = 22
    resize(512)
  }

  private def resize(capacity: Int): Unit = {
    columns = util.Arrays.copyOf(columns, capacity)
    keyAt = util.Arrays.copyOf(keyAt, capacity)
    keyLengths = util.Arrays.copyOf(keyLengths, capacity)
    valueAt = util.Arrays.copyOf(valueAt, capacity)
    valueLengths = util.Arrays.copyOf(valueLengths, capacity)
    valueRoom = util.Arrays.copyOf(valueRoom, capacity)
    flags = util.Arrays.copyOf(flags, capacity)
  }
}

private[rocksdb] object WriteBackCache {
  final val Absent = -1

  /** RocksDB doesn't have this value yet. */
  final val Unwritten = 1

  /** No commit has this value yet. */
  final val Changed = 2

  final val Known = 4
  final val Partial = 8

  /** The bytes of an entry beside key and value: columns and index. */
  private final val EntryBytes = 41

  /** The limit of one cache, whose bytes are in one array. */
  private final val MaxLimit = 768 << 20
  private final val Phi = 0x9e3779b9
}
