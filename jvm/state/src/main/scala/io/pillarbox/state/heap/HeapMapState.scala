package io.pillarbox.state.heap

import io.pillarbox.api.{Bytes, StateDescriptor, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.changelog._

/**
 * Maps of all keys in one [[MapTable]]; the key table holds the chain of each map. A timestamp belongs to one
 * entry, so expiry and clean-up never copy or scan a map.
 */
private[heap] final class HeapMapState[K, UK, UV](
    backend: HeapKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    id: Int
) extends HeapState[K](backend, descriptor, id, tableHasTimestamps = false, tableTracksChanges = false)
    with TimestampedMap[UK, UV] {
  private val serializer = descriptor.valueSerializer.asInstanceOf[TypeSerializer[UV]]
  private val userKeySerializer =
    descriptor.userKeySerializer.asInstanceOf[TypeSerializer[UK]]
  private val slots = new MapTable[UK](userKeySerializer, hasTimestamps, backend.tracksChanges)

  /** Grows with every entry of the current key that is added or removed. */
  private var changes = 0

  /** The entry of the last look-up, or -1. */
  private var found = -1

  override def get(key: UK): UV = {
    val at = locate(key)
    if (at < 0) null.asInstanceOf[UV] else slots.value(at).asInstanceOf[UV]
  }

  override def find(key: UK): Boolean = locate(key) >= 0 && slots.value(found) != null

  private def locate(key: UK): Int = {
    requireKey(key)
    val owner = entry()
    found = if (owner < 0) -1 else slots.find(owner, key)
    found
  }

  override def timestamp: Long = timestampOf(found)

  private def timestampOf(at: Int): Long = if (hasTimestamps) slots.timestamps(at) else StateClock.Unknown

  override def setTimestamp(timestamp: Long): Unit = setTimestamp(found, timestamp)

  private def setTimestamp(at: Int, timestamp: Long): Unit = {
    slots.timestamps(at) = timestamp
    slots.touch(at)
  }

  override def replace(key: UK, value: UV, timestamp: Long): Unit = {
    requireValue(value)
    slots.setValue(found, value.asInstanceOf[AnyRef])
    written(found, timestamp)
  }

  override def put(key: UK, value: UV, timestamp: Long): Unit = {
    requireKey(key)
    requireValue(value)
    val owner = entryForWrite()
    if (table.value(owner) == null) table.setValue(owner, new MapChain)
    written(place(owner, key, value.asInstanceOf[AnyRef]), timestamp)
  }

  private def written(at: Int, timestamp: Long): Unit = {
    if (hasTimestamps) slots.timestamps(at) = timestamp
    slots.touch(at)
  }

  override def remove(key: UK): Unit = if (find(key)) dropEntry(found)

  override def isEmpty: Boolean = {
    val owner = entry()
    owner < 0 || chain(owner).size == 0
  }

  override def clear(): Unit = {
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

  override def cursor(few: Boolean): TimestampedCursor[UK, UV] = {
    val owner = entry()
    new Cursor(if (owner < 0) -1 else chain(owner).head)
  }

  override def cursorBehind(place: Array[Byte]): TimestampedCursor[UK, UV] = {
    backend.checkAccess()
    new Cursor(slots.next(Bytes.getLong(place, 0).toInt))
  }

  private def chain(owner: Int): MapChain = table.value(owner).asInstanceOf[MapChain]

  private def place(owner: Int, key: UK, value: AnyRef): Int = {
    val at = slots.find(owner, key)
    if (at < 0) {
      changes += 1
      slots.insert(chain(owner), owner, key, value)
    } else {
      if (slots.value(at) == null) {
        changes += 1
        slots.revive(chain(owner), at, value)
      } else slots.setValue(at, value)
      at
    }
  }

  private def dropEntry(at: Int): Unit = {
    val owner = slots.owner(at)
    slots.remove(chain(owner), at)
    changes += 1
    releaseIfEmpty(owner)
  }

  private def releaseIfEmpty(owner: Int): Unit =
    if (chain(owner).size == 0 && chain(owner).tombstones == 0) table.free(owner)

  override protected def swept: DenseTable = slots

  override protected def sweepOne(at: Int, upTo: Long, first: Long, gone: ExpirySink): Unit =
    if (slots.owner(at) != current) {
      if (Timestamped.isUpTo(slots.timestamps(at), upTo, first)) {
        val owner = slots.owner(at)
        val (key, namespace) = (table.key(owner), table.namespace(owner))
        val (userKey, value) = (slots.userKey(at), slots.value(at))
        slots.remove(chain(owner), at)
        releaseIfEmpty(owner)
        gone.onExpire(key, namespace, userKey, value)
      } else if (first != StateClock.Unknown) setTimestamp(at, first)
    }

  override def used: Long = slots.used.toLong

  override protected def isAlive(owner: Int): Boolean = super.isAlive(owner) && chain(owner).size > 0

  override def writeChanges(writer: StateStreamWriter): Unit = slots.forEachChanged { at =>
    if (slots.value(at) != null) writeOne(at, writer)
    else {
      writer.beginRemove()
      writeKey(at, writer)
      writer.end()
    }
  }

  override def commitChanges(): Unit = slots.commitChanges { at =>
    if (slots.value(at) == null) {
      val owner = slots.owner(at)
      slots.free(at)
      chain(owner).tombstones -= 1
      releaseIfEmpty(owner)
    }
  }

  override protected def writeEntry(owner: Int, writer: StateStreamWriter): Unit = {
    var at = chain(owner).head
    while (at >= 0) {
      writeOne(at, writer)
      at = slots.next(at)
    }
  }

  private def writeKey(at: Int, writer: StateStreamWriter): Unit = {
    writePrefix(slots.owner(at), writer)
    userKeySerializer.serialize(slots.userKey(at), writer.out)
  }

  private def writeOne(at: Int, writer: StateStreamWriter): Unit = {
    writer.beginPut()
    writeKey(at, writer)
    writer.endKey()
    if (hasTimestamps) writer.out.writeLong(slots.timestamps(at))
    serializer.serialize(slots.value(at).asInstanceOf[UV], writer.out)
    writer.end()
  }

  override protected def load(
      owner: Int,
      record: RecordReader[K],
      plan: RestorePlan[AnyRef, AnyRef]
  ): Unit = {
    if (table.value(owner) == null) table.setValue(owner, new MapChain)
    val key = plan.userKey(record.userKey).asInstanceOf[UK]
    if (record.isPut) {
      val timestamp = plan.timestamp(record.value)
      val at = place(owner, key, plan.value(record.value))
      if (hasTimestamps) slots.timestamps(at) = timestamp
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

  private final class Cursor(first: Int) extends TimestampedCursor[UK, UV] {
    private val context = backend.contextVersion
    private var seenChanges = changes
    private var ahead = first
    private var at = -1
    private var taken = -1
    private var userKey: UK = _

    override def next(): Boolean = {
      check()
      at = ahead
      if (at >= 0) {
        ahead = slots.next(at)
        userKey = slots.userKey(at)
      }
      at >= 0
    }

    override def key: UK = userKey

    override def value: UV = slots.value(at).asInstanceOf[UV]

    override def timestamp: Long = timestampOf(at)

    override def place: Array[Byte] = {
      val bytes = new Array[Byte](java.lang.Long.BYTES)
      Bytes.putLong(bytes, 0, at.toLong)
      bytes
    }

    override def setTimestamp(timestamp: Long): Unit = HeapMapState.this.setTimestamp(at, timestamp)

    override def take(): Unit = taken = at

    override def remove(): Unit = {
      dropEntry(taken)
      seenChanges = changes
    }

    override def check(): Unit =
      if (context != backend.contextVersion || seenChanges != changes)
        throw StateErrors.changed("Map", descriptor.name)
  }
}
