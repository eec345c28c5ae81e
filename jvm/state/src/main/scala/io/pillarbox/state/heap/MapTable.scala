package io.pillarbox.state.heap

import java.util

import io.pillarbox.api.TypeSerializer

/**
 * All entries of all maps of one state: (owner, user key) to value. The owner is the position of the map's
 * key in its [[KeyTable]], so an entry costs no copy of the key. Not thread-safe.
 *
 * The entries of one owner are a doubly linked chain in order of insertion. A value of null is a tombstone,
 * which is no longer in the chain.
 */
private[heap] final class MapTable[UK](
    serializer: TypeSerializer[UK],
    hasTimestamps: Boolean,
    tracksChanges: Boolean
) extends DenseTable(hasTimestamps, tracksChanges) {
  import DenseTable.InitialEntries

  private var owners = new Array[Int](InitialEntries)

  /** User key and value of an entry beside each other, since they are read together. */
  private var slots = new Array[AnyRef](2 * InitialEntries)
  private var nexts = new Array[Int](InitialEntries)
  private var previous = new Array[Int](InitialEntries)

  def owner(entry: Int): Int = owners(entry)

  def userKey(entry: Int): UK = slots(2 * entry).asInstanceOf[UK]

  /** The value, null for a tombstone. */
  def value(entry: Int): AnyRef = slots(2 * entry + 1)

  def setValue(entry: Int, value: AnyRef): Unit = slots(2 * entry + 1) = value

  /** The entry after this one in its chain, or -1. */
  def next(entry: Int): Int = nexts(entry)

  override def isUsed(entry: Int): Boolean = slots(2 * entry) != null

  /** Finds the position of an entry, perhaps of a tombstone, or -1. */
  def find(owner: Int, userKey: UK): Int = {
    val hash = MapTable.hash(owner, serializer.hash(userKey))
    val mask = index.length - 1
    var slot = firstSlot(hash)
    var found = -2
    while (found == -2) {
      val word = index(slot)
      if (word == 0L) found = -1
      else if ((word >>> 32).toInt == hash && matches(DenseTable.positionAt(word), owner, userKey)) {
        found = DenseTable.positionAt(word)
        lastSlot = slot
      }
      slot = (slot + 1) & mask
    }
    found
  }

  /** Adds an entry that [[find]] did not find. */
  def insert(chain: MapChain, owner: Int, userKey: UK, value: AnyRef): Int = {
    val entry = allocate(MapTable.hash(owner, serializer.hash(userKey)))
    owners(entry) = owner
    slots(2 * entry) = userKey.asInstanceOf[AnyRef]
    link(chain, entry, value)
    entry
  }

  /** Gives a tombstone a value again. */
  def revive(chain: MapChain, entry: Int, value: AnyRef): Unit = {
    chain.tombstones -= 1
    link(chain, entry, value)
  }

  /** Takes the entry out of its map: freed, or a tombstone if the next commit must write its removal. */
  def remove(chain: MapChain, entry: Int): Unit = {
    unlink(chain, entry)
    if (isCommitted(entry)) {
      setValue(entry, null)
      if (timestamps != null) timestamps(entry) = Long.MaxValue
      touch(entry)
      chain.tombstones += 1
      removals += 1
    } else free(entry)
  }

  /** Removes an entry whose removal no commit needs to write. */
  def unlinkAndFree(chain: MapChain, entry: Int): Unit = {
    unlink(chain, entry)
    free(entry)
  }

  private def link(chain: MapChain, entry: Int, value: AnyRef): Unit = {
    setValue(entry, value)
    nexts(entry) = -1
    previous(entry) = chain.tail
    if (chain.tail >= 0) nexts(chain.tail) = entry else chain.head = entry
    chain.tail = entry
    chain.size += 1
  }

  private def unlink(chain: MapChain, entry: Int): Unit = {
    val (before, after) = (previous(entry), nexts(entry))
    if (before >= 0) nexts(before) = after else chain.head = after
    if (after >= 0) previous(after) = before else chain.tail = before
    chain.size -= 1
  }

  private def matches(entry: Int, owner: Int, userKey: UK): Boolean =
    owners(entry) == owner && {
      val own = slots(2 * entry)
      (own eq userKey.asInstanceOf[AnyRef]) || serializer.equal(own.asInstanceOf[UK], userKey)
    }

  override protected def growColumns(capacity: Int): Unit = {
    owners = util.Arrays.copyOf(owners, capacity)
    slots = util.Arrays.copyOf(slots, 2 * capacity)
    nexts = util.Arrays.copyOf(nexts, capacity)
    previous = util.Arrays.copyOf(previous, capacity)
  }

  override protected def clearColumns(entry: Int): Unit = {
    slots(2 * entry) = null
    slots(2 * entry + 1) = null
  }
}

private[heap] object MapTable {
  private def hash(owner: Int, userKeyHash: Int): Int = (userKeyHash * 0x85ebca6b) ^ (owner * 0xc2b2ae35)
}

/** The ends of one map's entries in the [[MapTable]]. */
private[heap] final class MapChain {
  var head: Int = -1
  var tail: Int = -1
  var size = 0

  /** Entries out of the chain whose removal the next commit writes; with any, the key stays in its table. */
  var tombstones = 0
}
