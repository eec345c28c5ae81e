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

  /** What is known of an entry beside each other: a look at a large cache is a miss of the processor's caches. */
  private var fields = new Array[Int](512 * Fields)
  private val arena = new OutputView(16 << 10)
  private var limit = ownLimit
  private var shares = false

  /** The number of entries, whose names are 0 until this. */
  var size = 0

  /** True if it is time for [[clear]]: no room is left, and there is no more to be had. */
  def isFull: Boolean = used >= limit && !growLimit() || used > ownLimit && used > shared.most

  /** The memory of the entries, in bytes. */
  def used: Long = arena.length.toLong + size.toLong * EntryBytes

  def bytes: Array[Byte] = arena.array

  def column(entry: Int): Int = fields(entry * Fields + Marks) >> FlagBits

  def keyOffset(entry: Int): Int = fields(entry * Fields + KeyAt)

  def keyLength(entry: Int): Int = fields(entry * Fields + KeyLength)

  def valueOffset(entry: Int): Int = fields(entry * Fields + ValueAt)

  /** The length of the value; [[Absent]] if it is known that there is none. */
  def valueLength(entry: Int): Int = fields(entry * Fields + ValueLength)

  def has(entry: Int, flag: Int): Boolean = (fields(entry * Fields + Marks) & flag) != 0

  def isUnwritten(entry: Int): Boolean = has(entry, Unwritten)

  def isChanged(entry: Int): Boolean = has(entry, Changed)

  /** True if the value, or its absence, is that of the database or newer. */
  def isKnown(entry: Int): Boolean = has(entry, Known)

  /** True if the value is only the end of one, to be added to the database's. */
  def isPartial(entry: Int): Boolean = has(entry, Partial)

  def mark(entry: Int, flag: Int): Unit = fields(entry * Fields + Marks) |= flag

  def unmark(entry: Int, flag: Int): Unit = fields(entry * Fields + Marks) &= ~flag

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
    val at = keyOffset(entry)
    util.Arrays.compareUnsigned(arena.array, at, at + keyLength(entry), other, 0, other.length)
  }

  /** True if this is the entry of the key; any number is allowed. */
  def isAt(entry: Int, column: Int, key: Array[Byte], keyLength: Int): Boolean =
    entry >= 0 && entry < size && matches(entry, column, key, keyLength)

  /** Adds a key that [[find]] did not find. Its value is absent, its flags are unset. */
  def add(column: Int, key: Array[Byte], keyLength: Int): Int = {
    if ((size + 1) * Fields > fields.length) fields = util.Arrays.copyOf(fields, fields.length * 2)
    val entry = size
    size += 1
    val at = entry * Fields
    fields(at + Marks) = column << FlagBits
    fields(at + KeyAt) = arena.length
    fields(at + KeyLength) = keyLength
    fields(at + ValueLength) = Absent
    fields(at + ValueRoom) = 0
    arena.writeBytes(key, 0, keyLength)
    if (size * 2 > index.length) enlargeIndex() else enter(index, hashOf(column, key, keyLength), entry)
    entry
  }

  /** Sets the value, in place if there is room. */
  def setValue(entry: Int, value: Array[Byte], length: Int): Unit = {
    if (length > valueRoom(entry)) {
      placeValue(entry, arena.length, length)
      arena.writeBytes(value, 0, length)
    } else System.arraycopy(value, 0, arena.array, valueOffset(entry), length)
    setLength(entry, length)
  }

  /** Adds to the end of the value. */
  def append(entry: Int, bytes: Array[Byte], length: Int): Unit = {
    val old = valueLength(entry)
    if (old + length > valueRoom(entry)) makeRoom(entry, 2 * (old + length))
    System.arraycopy(bytes, 0, arena.array, valueOffset(entry) + old, length)
    setLength(entry, old + length)
  }

  /** Adds before the value. */
  def prepend(entry: Int, bytes: Array[Byte], length: Int): Unit = {
    val own = valueLength(entry)
    val at = arena.length
    arena.reserve(length + own)
    arena.writeBytes(bytes, 0, length)
    arena.writeBytes(arena.array, valueOffset(entry), own)
    placeValue(entry, at, length + own)
    setLength(entry, length + own)
  }

  /** Moves the value to a place with room. */
  private def makeRoom(entry: Int, room: Int): Unit = {
    val at = arena.length
    arena.reserve(room)
    arena.writeBytes(arena.array, valueOffset(entry), valueLength(entry))
    arena.skip(room - valueLength(entry))
    placeValue(entry, at, room)
  }

  def setAbsent(entry: Int): Unit = setLength(entry, Absent)

  private def valueRoom(entry: Int): Int = fields(entry * Fields + ValueRoom)

  private def setLength(entry: Int, length: Int): Unit = fields(entry * Fields + ValueLength) = length

  private def placeValue(entry: Int, at: Int, room: Int): Unit = {
    fields(entry * Fields + ValueAt) = at
    fields(entry * Fields + ValueRoom) = room
  }

  def clear(): Unit = {
    if (limit > ownLimit) shrink() else util.Arrays.fill(index, 0L)
    arena.clear()
    arena.shrinkTo(2 * ownLimit)
    size = 0
    giveBack()
  }

  /** Gives its part of the budget back; the cache must not be used again. */
  override def close(): Unit = giveBack()

  private def growLimit(): Boolean = {
    if (!shares) shared.join()
    shares = true
    val step = math.max(1, ownLimit / 2)
    val grows = limit <= MaxLimit - step && shared.tryTake(step.toLong)
    if (grows) limit += step
    grows
  }

  private def giveBack(): Unit = {
    if (limit > ownLimit) shared.giveBack((limit - ownLimit).toLong)
    limit = ownLimit
    if (shares) shared.leave()
    shares = false
  }

  private def matches(entry: Int, column: Int, key: Array[Byte], length: Int): Boolean = {
    val at = keyOffset(entry)
    this.column(entry) == column && keyLength(entry) == length &&
    util.Arrays.equals(arena.array, at, at + length, key, 0, length)
  }

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
      val hash = Bytes.hash(arena.array, keyOffset(entry), keyLength(entry)) + column(entry) * 0x85ebca6b
      enter(larger, hash, entry)
      entry += 1
    }
    index = larger
  }

  private def shrink(): Unit = {
    index = new Array[Long](1024)
    shift = 22
    fields = new Array[Int](512 * Fields)
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

  /** The fields of an entry: the column's number with the flags, then places and lengths in the arena. */
  private final val Marks = 0
  private final val KeyAt = 1
  private final val KeyLength = 2
  private final val ValueAt = 3
  private final val ValueLength = 4
  private final val ValueRoom = 5
  private final val Fields = 6
  private final val FlagBits = 4

  /** The bytes of an entry beside key and value: fields and index. */
  private final val EntryBytes = 40

  /** The limit of one cache, whose bytes are in one array. */
  private final val MaxLimit = 768 << 20
  private final val Phi = 0x9e3779b9
}
