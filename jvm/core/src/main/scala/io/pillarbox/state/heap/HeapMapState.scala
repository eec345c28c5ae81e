package io.pillarbox.state.heap

import java.util.Map.Entry

import io.pillarbox.state._
import io.pillarbox.state.changelog._
import io.pillarbox.state.serialization.{InputView, TypeSerializer}

/**
 * Maps of all keys in one [[MapTable]]; the key table holds where each map's chain begins. A timestamp belongs to one
 * entry, so expiry and clean-up never copy or scan a map.
 */
private[heap] final class HeapMapState[K, UK, UV](
    backend: HeapKeyedStateBackend[K],
    descriptor: MapStateDescriptor[UK, UV],
    id: Int
) extends HeapCollectionState[K](
      backend,
      descriptor,
      id,
      tableHasTimestamps = false,
      tableTracksChanges = false
    )
    with MapState[UK, UV]
    with TimestampedMap[UK, UV] {
  private[this] val serializer: TypeSerializer[UV] = descriptor.valueSerializer
  private[this] val userKeySerializer = descriptor.userKeySerializer
  private[this] val slots = new MapTable[UK](userKeySerializer, policy != null, backend.tracksChanges)

  /** Grows with every entry that the user adds or removes, or meets expired. */
  private[this] var changes = 0
  override protected val expireAction: PositionAction =
    at => if (slots.owner(at) != current) expireOrStamp(at, sweepNow): Unit

  override protected def swept: DenseTable = slots

  override def get(key: UK): UV = {
    requireKey(key)
    if (policy == null) {
      val owner = entry()
      val at = if (owner < 0) -1 else slots.find(owner, key)
      if (at < 0) null.asInstanceOf[UV] else slots.values(at).asInstanceOf[UV]
    } else {
      val now = sweptNow()
      val owner = entry()
      val at = if (owner < 0) -1 else slots.find(owner, key)
      if (at < 0 || slots.values(at) == null) null.asInstanceOf[UV] else readAlive(at, now)
    }
  }

  override def timestampOf(key: UK): Long = {
    requireKey(key)
    val owner = entry()
    val at = if (policy == null || owner < 0) -1 else slots.find(owner, key)
    if (at < 0 || slots.values(at) == null) StateClock.Unknown else policy.known(slots.timestamps(at))
  }

  override def put(key: UK, value: UV): Unit = {
    val now = sweptNow()
    val at = placed(key, value)
    if (policy != null) slots.timestamps(at) = if (policy.replacesStored(now)) now else stampOver(at, now)
    slots.touch(at)
  }

  override def put(key: UK, value: UV, timestamp: Long): Unit = {
    sweptNow(): Unit
    val at = placed(key, value)
    if (policy != null) slots.timestamps(at) = timestamp
    slots.touch(at)
  }

  private[this] def placed(key: UK, value: UV): Int = {
    requireKey(key)
    if (value == null) throw StateErrors.nullValue(descriptor.name, "a map value")
    val owner = entryForWrite()
    if (table.value(owner) == null) table.setValue(owner, new MapChain)
    place(owner, key, value.asInstanceOf[AnyRef])
  }

  private[this] def stampOver(at: Int, now: Long): Long = {
    val stored = slots.timestamps(at)
    if (stored == Long.MaxValue) policy.stamp(now) else policy.stamp(now, stored)
  }

  override def putAll(entries: Iterable[(UK, UV)]): Unit = entries.foreach { case (key, value) =>
    put(key, value)
  }

  override def remove(key: UK): Unit = {
    requireKey(key)
    if (policy != null) sweptNow(): Unit
    val owner = entry()
    val at = if (owner < 0) -1 else slots.find(owner, key)
    if (at >= 0 && slots.values(at) != null) dropEntry(at)
  }

  override def contains(key: UK): Boolean = get(key) != null

  override def isEmpty: Boolean = {
    val now = sweptNow()
    val owner = entry()
    if (owner < 0) true
    else if (policy == null) chain(owner).size == 0
    else firstAlive(chain(owner), now) < 0
  }

  override def clear(): Unit = {
    if (policy != null) sweptNow(): Unit
    val owner = entry()
    if (owner >= 0) {
      val all = chain(owner)
      while (all.head >= 0) {
        slots.remove(all, all.head)
        changes += 1
      }
      releaseIfEmpty(owner)
    }
  }

  override def keys: StateIterator[UK] = new Cursor[UK] {
    override protected def make(key: UK, value: UV): UK = key
  }

  override def values: StateIterator[UV] = new Cursor[UV] {
    override protected def make(key: UK, value: UV): UV = value
  }

  override def entries: StateIterator[Entry[UK, UV]] = new Cursor[Entry[UK, UV]] {
    private[this] val replacing: (UK, UV) => Unit = replace
    override protected def make(key: UK, value: UV): Entry[UK, UV] = new LiveEntry(key, value, replacing)
  }

  private[this] def chain(owner: Int): MapChain = table.value(owner).asInstanceOf[MapChain]

  private[this] def requireKey(key: UK): Unit =
    if (key == null) throw StateErrors.nullValue(descriptor.name, "a map key")

  private[this] def place(owner: Int, key: UK, value: AnyRef): Int = {
    val at = slots.find(owner, key)
    if (at < 0) {
      changes += 1
      slots.insert(chain(owner), owner, key, value)
    } else {
      if (slots.values(at) == null) {
        changes += 1
        slots.revive(chain(owner), at, value)
      } else slots.values(at) = value
      at
    }
  }

  private[this] def dropEntry(at: Int): Unit = {
    val owner = slots.owner(at)
    slots.remove(chain(owner), at)
    changes += 1
    releaseIfEmpty(owner)
  }

  private[this] def releaseIfEmpty(owner: Int): Unit =
    if (chain(owner).size == 0 && chain(owner).tombstones == 0) table.free(owner)

  private[this] def readAlive(at: Int, now: Long): UV = {
    val value = slots.values(at).asInstanceOf[UV]
    if (slots.timestamps(at) <= policy.limit(now) && expireOrStamp(at, now)) {
      changes += 1
      if (policy.returnsExpired) value else null.asInstanceOf[UV]
    } else {
      if (policy.renewsOnRead) restamp(at, now)
      value
    }
  }

  private[this] def restamp(at: Int, now: Long): Unit = {
    val stamp = policy.afterRead(now, slots.timestamps(at))
    if (stamp != slots.timestamps(at)) {
      slots.timestamps(at) = stamp
      slots.touch(at)
    }
  }

  /** Removes an entry whose time is over and returns true; starts the life of one that has no timestamp yet. */
  private[this] def expireOrStamp(at: Int, now: Long): Boolean =
    if (!policy.isExpired(slots.timestamps(at), policy.limit(now))) {
      restamp(at, now)
      false
    } else {
      val owner = slots.owner(at)
      val (key, namespace) = (table.key(owner), table.namespace(owner))
      val (userKey, value) = (slots.userKey(at), slots.values(at))
      slots.remove(chain(owner), at)
      releaseIfEmpty(owner)
      tellExpired(key, namespace, userKey, value)
      true
    }

  /** Removes what is expired at the front of the chain, up to the first entry that is alive. */
  private[this] def firstAlive(all: MapChain, now: Long): Int = {
    val limit = policy.limit(now)
    var at = all.head
    while (at >= 0 && policy.isExpired(slots.timestamps(at), limit)) {
      val next = slots.next(at)
      changes += 1
      expireOrStamp(at, now): Unit
      at = next
    }
    at
  }

  override def used: Long = slots.used.toLong

  override def numEntries: Long =
    Iterator.range(0, table.highWater).filter(isAlive).map(chain(_).size.toLong).sum

  override protected def isAlive(owner: Int): Boolean = super.isAlive(owner) && chain(owner).size > 0

  override def writeChanges(writer: StateStreamWriter): Unit = slots.forEachChanged { at =>
    val keyGroup = keyGroupOf(slots.owner(at))
    if (slots.values(at) != null) writeOne(at, keyGroup, writer)
    else {
      writer.beginRemove(keyGroup)
      writeKey(at, keyGroup, writer)
      writer.endRemove()
    }
  }

  override def commitChanges(): Unit = slots.commitChanges { at =>
    if (slots.values(at) == null) {
      val owner = slots.owner(at)
      slots.free(at)
      chain(owner).tombstones -= 1
      releaseIfEmpty(owner)
    }
  }

  override protected def writeEntry(
      owner: Int,
      keyGroup: Int,
      limit: Long,
      writer: StateStreamWriter
  ): Unit = {
    var at = chain(owner).head
    while (at >= 0) {
      if (policy == null || !policy.isExpired(slots.timestamps(at), limit)) writeOne(at, keyGroup, writer)
      at = slots.next(at)
    }
  }

  private[this] def writeKey(at: Int, keyGroup: Int, writer: StateStreamWriter): Unit = {
    writePrefix(slots.owner(at), keyGroup, writer)
    userKeySerializer.serialize(slots.userKey(at), writer.out)
  }

  private[this] def writeOne(at: Int, keyGroup: Int, writer: StateStreamWriter): Unit = {
    writer.beginPut(keyGroup)
    writeKey(at, keyGroup, writer)
    writer.endKey()
    if (policy != null) writer.out.writeLong(slots.timestamps(at))
    serializer.serialize(slots.values(at).asInstanceOf[UV], writer.out)
    writer.endValue()
  }

  override protected def load(
      owner: Int,
      isPut: Boolean,
      userKey: InputView,
      value: InputView,
      plan: RestorePlan[AnyRef, AnyRef]
  ): Unit = {
    if (table.value(owner) == null) table.setValue(owner, new MapChain)
    val key = plan.userKey(userKey).asInstanceOf[UK]
    if (isPut) {
      val stamp = plan.timestamp(value)
      val at = place(owner, key, plan.value(value))
      if (policy != null) slots.timestamps(at) = stamp
      slots.markCommitted(at)
      if (!plan.sameBytes) slots.touch(at)
    } else {
      val at = slots.find(owner, key)
      if (at >= 0) {
        slots.unlinkAndFree(chain(owner), at)
        releaseIfEmpty(owner)
      }
    }
  }

  private abstract class Cursor[A] extends StateIterator[A] {
    private[this] val now = sweptNow()
    private[this] val context = backend.contextVersion
    private[this] var seenChanges = changes
    private[this] var ahead = { val owner = entry(); if (owner < 0) -1 else chain(owner).head }
    private[this] var upcoming: UV = _
    private[this] var upcomingKey: UK = _
    private[this] var upcomingAt = -1
    private[this] var last = -1

    protected def make(key: UK, value: UV): A

    override def hasNext: Boolean = {
      check()
      while (upcoming == null && ahead >= 0) advance()
      upcoming != null
    }

    override def next(): A = {
      if (!hasNext) throw StateErrors.mapEnds(descriptor.name)
      // It may have been replaced since `hasNext`.
      if (upcomingAt >= 0) upcoming = slots.values(upcomingAt).asInstanceOf[UV]
      val result = make(upcomingKey, upcoming)
      last = upcomingAt
      upcoming = null.asInstanceOf[UV]
      result
    }

    override def remove(): Unit = {
      check()
      if (last == -1) throw StateErrors.nothingToRemove
      if (last >= 0) dropEntry(last)
      last = -1
      seenChanges = changes
    }

    /** Puts an entry that this iteration returned. */
    protected final def replace(key: UK, value: UV): Unit = {
      check()
      if (!isThere(key)) throw StateErrors.entryGone(descriptor.name, key)
      put(key, value)
    }

    private[this] def isThere(key: UK): Boolean = {
      val owner = entry()
      val at = if (owner < 0) -1 else slots.find(owner, key)
      at >= 0 && slots.values(at) != null
    }

    private[this] def advance(): Unit = {
      val at = ahead
      ahead = slots.next(at)
      upcomingKey = slots.userKey(at)
      upcomingAt = at
      if (policy == null) upcoming = slots.values(at).asInstanceOf[UV]
      else {
        upcoming = readAlive(at, now)
        if (seenChanges != changes) upcomingAt = Cursor.Gone
        seenChanges = changes
      }
    }

    private[this] def check(): Unit =
      if (context != backend.contextVersion || seenChanges != changes)
        throw StateErrors.mapChanged(descriptor.name)
  }

  private object Cursor {

    /** The place of an entry that was expired: it is removed already. */
    final val Gone = -2
  }
}
