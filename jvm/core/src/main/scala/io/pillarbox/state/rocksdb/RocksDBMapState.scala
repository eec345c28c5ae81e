package io.pillarbox.state.rocksdb

import java.util.Map.Entry

import io.pillarbox.state._
import io.pillarbox.state.serialization.{InputView, OutputView}

/** One entry of RocksDB an entry of a map. */
private[rocksdb] final class RocksDBMapState[K, UK, UV](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: MapStateDescriptor[UK, UV],
    column: StateColumn
) extends RocksDBState[K, UV](backend, descriptor, column)
    with MapState[UK, UV]
    with TimestampedMap[UK, UV] {
  private[this] val userKeySerializer = descriptor.userKeySerializer
  private[this] val userKeyView = new InputView

  /** Grows with every entry added or removed while the map of the context below is iterated. */
  private[this] var changes = 0L

  /** In which context an iterator was made last; only there must a write look whether it adds an entry. */
  private[this] var iteratedContext = -1L

  override def get(key: UK): UV = {
    val at = keyOf(key)
    read(at, key)
  }

  override def timestampOf(key: UK): Long = timestampAt(keyOf(key))

  override def put(key: UK, value: UV): Unit = {
    val at = keyToPut(key, value)
    store(at, value, stampFor(at, now()))
  }

  override def put(key: UK, value: UV, timestamp: Long): Unit =
    store(keyToPut(key, value), value, timestamp)

  private[this] def keyToPut(key: UK, value: UV): OutputView = {
    if (value == null) throw StateErrors.nullValue(descriptor.name, "a map value")
    val at = keyOf(key)
    if (isIterated && !table.get(column, at)) changes += 1
    at
  }

  override def putAll(entries: Iterable[(UK, UV)]): Unit = entries.foreach { case (key, value) =>
    put(key, value)
  }

  override def remove(key: UK): Unit = {
    val at = keyOf(key)
    if (isIterated && table.get(column, at)) changes += 1
    table.delete(column, at)
  }

  override def contains(key: UK): Boolean =
    if (policy == null) table.get(column, keyOf(key)) else get(key) != null

  override def isEmpty: Boolean = {
    backend.checkAccess()
    val limit = if (policy == null) 0L else policy.limit(policy.now)
    val scan = table.scan(column, prefixBytes(), if (policy == null) 1 else 16)
    var found = false
    while (!found && scan.next())
      if (policy == null || !policy.isExpired(viewOn(scan.value).readLong(), limit)) found = true
      else removeExpired(scan): Unit
    !found
  }

  override def clear(): Unit = {
    backend.checkAccess()
    val scan = table.scan(column, prefixBytes())
    while (scan.next()) table.delete(column, keyOf(scan.key))
    changes += 1
  }

  override def keys: StateIterator[UK] = new Cursor[UK](true) {
    override protected def make(key: UK, value: UV): UK = key
  }

  override def values: StateIterator[UV] = new Cursor[UV](false) {
    override protected def make(key: UK, value: UV): UV = value
  }

  override def entries: StateIterator[Entry[UK, UV]] = new Cursor[Entry[UK, UV]](true) {
    private[this] val replacing: (UK, UV) => Unit = replace
    override protected def make(key: UK, value: UV): Entry[UK, UV] = new LiveEntry(key, value, replacing)
  }

  override protected def metExpired(): Unit = changes += 1

  private[this] def isIterated: Boolean = iteratedContext == backend.contextVersion

  private[this] def keyOf(key: UK): OutputView = {
    if (key == null) throw StateErrors.nullValue(descriptor.name, "a map key")
    backend.checkAccess()
    val at = openKey()
    userKeySerializer.serialize(key, at)
    at
  }

  /** The key of an entry of the current context, from its bytes. */
  private[this] def keyOf(bytes: Array[Byte]): OutputView = {
    val at = openKey()
    val prefix = at.length
    at.writeBytes(bytes, prefix, bytes.length - prefix)
    at
  }

  private[this] def userKey(scan: EntryScan): UK = {
    val prefix = openKey().length
    userKeySerializer.deserialize(userKeyView.wrap(scan.key, prefix, scan.key.length - prefix))
  }

  private[this] def removeExpired(scan: EntryScan): UV = {
    val view = viewOn(scan.value)
    view.skip(java.lang.Long.BYTES)
    val (key, value) = (userKey(scan), serializer.deserialize(view))
    table.delete(column, keyOf(scan.key))
    changes += 1
    tellExpired(key, value)
    value
  }

  private abstract class Cursor[A](needsKey: Boolean) extends StateIterator[A] {
    backend.checkAccess()
    iteratedContext = backend.contextVersion
    private[this] val time = if (policy == null) 0L else policy.now
    private[this] val context = backend.contextVersion
    private[this] var seenChanges = changes
    private[this] val scan = table.scan(column, prefixBytes())
    private[this] var upcoming: UV = _
    private[this] var upcomingKey: UK = _
    private[this] var upcomingBytes: Array[Byte] = _

    /** How many writes there were when the upcoming value was read. */
    private[this] var seenWrites = 0L
    private[this] var last: Array[Byte] = _
    private[this] var ended = false

    protected def make(key: UK, value: UV): A

    override def hasNext: Boolean = {
      check()
      while (upcoming == null && !ended)
        if (scan.next()) advance() else ended = true
      upcoming != null
    }

    override def next(): A = {
      if (!hasNext) throw StateErrors.mapEnds(descriptor.name)
      if (seenWrites != table.writes) readAgain()
      val result = make(upcomingKey, upcoming)
      last = upcomingBytes
      upcoming = null.asInstanceOf[UV]
      result
    }

    override def remove(): Unit = {
      check()
      if (last == null) throw StateErrors.nothingToRemove
      table.delete(column, keyOf(last))
      last = null
    }

    /** Puts an entry that this iteration returned. */
    protected final def replace(key: UK, value: UV): Unit = {
      check()
      if (!table.get(column, keyOf(key))) throw StateErrors.entryGone(descriptor.name, key)
      put(key, value)
    }

    private[this] def advance(): Unit = {
      upcomingBytes = scan.key
      if (needsKey) upcomingKey = userKey(scan)
      val view = viewOn(scan.value)
      if (policy == null) upcoming = serializer.deserialize(view) else advanceAlive(view)
      seenWrites = table.writes
    }

    private[this] def advanceAlive(view: InputView): Unit = {
      val timestamp = view.readLong()
      if (policy.isExpired(timestamp, policy.limit(time))) {
        val value = removeExpired(scan)
        seenChanges = changes
        if (policy.returnsExpired) upcoming = value
      } else {
        upcoming = serializer.deserialize(view)
        renewIfDue(keyOf(scan.key), timestamp, time)
      }
    }

    /** The value may have been replaced since `hasNext`; one that was expired is removed, and shown nevertheless. */
    private[this] def readAgain(): Unit = if (table.get(column, keyOf(upcomingBytes))) {
      if (policy != null) table.value.skip(java.lang.Long.BYTES)
      upcoming = serializer.deserialize(table.value)
    }

    private[this] def check(): Unit =
      if (context != backend.contextVersion || seenChanges != changes)
        throw StateErrors.mapChanged(descriptor.name)
  }
}
