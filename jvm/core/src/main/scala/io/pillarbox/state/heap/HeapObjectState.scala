package io.pillarbox.state.heap

import io.pillarbox.state._
import io.pillarbox.state.changelog._
import io.pillarbox.state.serialization.{InputView, TypeSerializer}

/** One object a key, its timestamp in the column beside it: values, and the aggregates of the appending states. */
private[heap] abstract class HeapObjectState[K, V](
    backend: HeapKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    id: Int
) extends HeapState[K](backend, descriptor, id, tableHasTimestamps = true, backend.tracksChanges)
    with TimestampedValue[V] {
  private[this] val serializer = descriptor.valueSerializer.asInstanceOf[TypeSerializer[V]]
  private[this] var sweepNow = 0L
  private[this] val expireAction: PositionAction = entry => expireOrStamp(entry, sweepNow): Unit

  /** The value, or null. */
  protected final def read(): V =
    if (policy == null) {
      val at = entry()
      if (at < 0) null.asInstanceOf[V] else table.value(at).asInstanceOf[V]
    } else readAlive()

  protected final def write(value: V): Unit = {
    val now = if (policy == null) 0L else sweptNow()
    val at = entryForWrite()
    if (policy != null) table.timestamps(at) = if (policy.replacesStored(now)) now else stampOver(at, now)
    set(at, value)
  }

  override final def write(value: V, timestamp: Long): Unit = {
    if (policy != null) sweptNow(): Unit
    val at = entryForWrite()
    if (policy != null) table.timestamps(at) = timestamp
    set(at, value)
  }

  private[this] def set(at: Int, value: V): Unit = {
    table.setValue(at, value.asInstanceOf[AnyRef])
    table.touch(at)
  }

  private[this] def stampOver(at: Int, now: Long): Long =
    if (table.value(at) == null) policy.stamp(now) else policy.stamp(now, table.timestamps(at))

  override final def timestamp: Long = {
    val at = entry()
    if (policy == null || !isThere(at)) StateClock.Unknown else policy.known(table.timestamps(at))
  }

  override def clear(): Unit = {
    if (policy != null) sweptNow(): Unit
    val at = entry()
    if (isThere(at)) table.remove(at)
  }

  private[this] def isThere(at: Int): Boolean = at >= 0 && table.value(at) != null

  private[this] def sweptNow(): Long = {
    val now = policy.now
    sweepInTurn(now)
    now
  }

  private[this] def readAlive(): V = {
    val now = sweptNow()
    val at = entry()
    if (!isThere(at)) null.asInstanceOf[V]
    else {
      val value = table.value(at).asInstanceOf[V]
      if (table.timestamps(at) <= policy.limit(now) && expireOrStamp(at, now))
        if (policy.returnsExpired) value else null.asInstanceOf[V]
      else {
        if (policy.renewsOnRead) restamp(at, now)
        value
      }
    }
  }

  private[this] def restamp(at: Int, now: Long): Unit = {
    val stamp = policy.afterRead(now, table.timestamps(at))
    if (stamp != table.timestamps(at)) {
      table.timestamps(at) = stamp
      table.touch(at)
    }
  }

  override protected final def sweep(count: Int, now: Long, limit: Long): Unit = {
    sweepNow = now
    table.sweep(count, limit, expireAction)
  }

  /** Removes an entry whose time is over and returns true; starts the life of one that has no timestamp yet. */
  private[this] def expireOrStamp(at: Int, now: Long): Boolean =
    if (!policy.isExpired(table.timestamps(at), policy.limit(now))) {
      restamp(at, now)
      false
    } else {
      val (key, namespace, value) = (table.key(at), table.namespace(at), table.value(at))
      table.remove(at)
      tellExpired(key, namespace, null, value)
      true
    }

  override def numEntries: Long = {
    var count = 0L
    var i = 0
    while (i < table.highWater) {
      if (isAlive(i)) count += 1
      i += 1
    }
    count
  }

  override def writeChanges(writer: StateStreamWriter): Unit = table.forEachChanged { at =>
    if (isAlive(at)) writeEntry(at, keyGroupOf(at), StateClock.Unknown, writer)
    else {
      val keyGroup = keyGroupOf(at)
      writer.beginRemove(keyGroup)
      writePrefix(at, keyGroup, writer)
      writer.endRemove()
    }
  }

  override def commitChanges(): Unit = table.commitChanges(at => if (!isAlive(at)) table.free(at))

  override protected def writeEntry(at: Int, keyGroup: Int, limit: Long, writer: StateStreamWriter): Unit =
    if (policy == null || !policy.isExpired(table.timestamps(at), limit)) {
      writer.beginPut(keyGroup)
      writePrefix(at, keyGroup, writer)
      writer.endKey()
      if (policy != null) writer.out.writeLong(table.timestamps(at))
      serializer.serialize(table.value(at).asInstanceOf[V], writer.out)
      writer.endValue()
    }

  override protected def load(
      at: Int,
      isPut: Boolean,
      userKey: InputView,
      value: InputView,
      plan: RestorePlan[AnyRef, AnyRef]
  ): Unit =
    if (isPut) {
      val stamp = plan.timestamp(value)
      table.setValue(at, plan.value(value))
      if (policy != null) table.timestamps(at) = stamp
      table.markCommitted(at)
      if (!plan.sameBytes) table.touch(at)
    } else table.free(at)
}

private[heap] final class HeapValueState[K, V](
    backend: HeapKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    id: Int
) extends HeapObjectState[K, V](backend, descriptor, id)
    with ValueState[V] {

  override def value(): V = read()

  override def update(value: V): Unit = if (value == null) clear() else write(value)
}
