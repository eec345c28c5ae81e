package io.pillarbox.state.rocksdb

import java.util

import io.pillarbox.api.{InputView, OutputView, StateDescriptor, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.rocksdb.entries.{EntryScan, EntryStore, StateColumn}

/** Keeps each entry of a map as one entry of RocksDB. */
private[rocksdb] final class RocksDBMapState[K, UK, UV](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    column: StateColumn
) extends RocksDBState[K, UV](backend, descriptor, column)
    with TimestampedMap[UK, UV] {
  private val userKeySerializer =
    descriptor.userKeySerializer.asInstanceOf[TypeSerializer[UK]]
  private val userKeyView = new InputView

  /** Grows with every entry added or removed while the map of the context below is iterated. */
  private var changes = 0L

  /** The context in which an iterator was made last; only there must a write check if it adds an entry. */
  private var iteratedContext = -1L

  override def get(key: UK): UV = read(keyOf(key))

  override def find(key: UK): Boolean = find(keyOf(key))

  override def setTimestamp(timestamp: Long): Unit = table.setTimestamp(column, lastKey, timestamp)

  override def replace(key: UK, value: UV, timestamp: Long): Unit = {
    requireValue(value)
    store(keyOf(key), value, timestamp)
  }

  override def put(key: UK, value: UV, timestamp: Long): Unit = {
    requireValue(value)
    val at = keyOf(key)
    if (isIterated && !table.get(column, at)) changes += 1
    store(at, value, timestamp)
  }

  override def remove(key: UK): Unit = {
    val at = keyOf(key)
    if (isIterated && table.get(column, at)) changes += 1
    table.delete(column, at)
  }

  override def isEmpty: Boolean = {
    backend.checkAccess()
    !table.scan(column, prefixBytes(), 1).next()
  }

  override def clear(): Unit = {
    backend.checkAccess()
    val scan = table.scan(column, prefixBytes())
    while (scan.next()) table.delete(column, keyOf(scan.key))
    changes += 1
  }

  override def cursor(few: Boolean): TimestampedCursor[UK, UV] = {
    backend.checkAccess()
    iteratedContext = backend.contextVersion
    new Cursor(if (few) table.scan(column, prefixBytes(), 16) else table.scan(column, prefixBytes()))
  }

  override def cursorBehind(place: Array[Byte]): TimestampedCursor[UK, UV] = {
    backend.checkAccess()
    iteratedContext = backend.contextVersion
    val prefix = prefixBytes()
    new Cursor(table.scan(column, prefix, from = EntryStore.after(prefix ++ place)))
  }

  private def isIterated: Boolean = iteratedContext == backend.contextVersion

  private def keyOf(key: UK): OutputView = {
    requireKey(key)
    backend.checkAccess()
    val at = openKey()
    userKeySerializer.serialize(key, at)
    at
  }

  /** Returns the key of an entry of the current context, from its bytes. */
  private def keyOf(bytes: Array[Byte]): OutputView = {
    val at = openKey()
    val prefix = at.length
    at.writeBytes(bytes, prefix, bytes.length - prefix)
    at
  }

  private final class Cursor(scan: EntryScan) extends TimestampedCursor[UK, UV] {
    private val context = backend.contextVersion
    private var seenChanges = changes

    /** The entry's value, if it was asked for. */
    private var read: UV = _

    /** The number of writes when the entry's value was read. */
    private var seenWrites = 0L
    private var taken: Array[Byte] = _

    override def next(): Boolean = {
      check()
      read = null.asInstanceOf[UV]
      val found = scan.next()
      seenWrites = table.writes
      found
    }

    override def key: UK = {
      val prefix = openKey().length
      userKeySerializer.deserialize(userKeyView.wrap(scan.key, prefix, scan.key.length - prefix))
    }

    override def value: UV = {
      if (seenWrites != table.writes) readAgain()
      if (read == null) read = deserialize(viewOn(scan.value))
      read
    }

    override def timestamp: Long = if (hasTimestamps) viewOn(scan.value).readLong() else StateClock.Unknown

    override def place: Array[Byte] =
      util.Arrays.copyOfRange(scan.key, openKey().length, scan.key.length)

    override def setTimestamp(timestamp: Long): Unit = {
      value: Unit
      val at = keyOf(scan.key)
      if (table.get(column, at)) table.setTimestamp(column, at, timestamp)
      seenWrites = table.writes
    }

    override def take(): Unit = taken = scan.key

    override def remove(): Unit = {
      table.delete(column, keyOf(taken))
      changes += 1
      seenChanges = changes
    }

    override def check(): Unit =
      if (context != backend.contextVersion || seenChanges != changes)
        throw StateErrors.changed("Map", descriptor.name)

    /** Reads the value that may have been replaced since `next`. */
    private def readAgain(): Unit = {
      if (table.get(column, keyOf(scan.key))) read = deserialize(table.value)
      seenWrites = table.writes
    }

    private def deserialize(view: InputView): UV = {
      if (hasTimestamps) view.skip(java.lang.Long.BYTES)
      serializer.deserialize(view)
    }
  }
}
