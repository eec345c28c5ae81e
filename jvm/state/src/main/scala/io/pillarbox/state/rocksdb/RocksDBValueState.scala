package io.pillarbox.state.rocksdb

import io.pillarbox.api.StateDescriptor
import io.pillarbox.state._
import io.pillarbox.state.rocksdb.entries.StateColumn

/** Keeps one entry a key: values, and the accumulators of the appending states. */
private[rocksdb] final class RocksDBValueState[K, V](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    column: StateColumn
) extends RocksDBState[K, V](backend, descriptor, column)
    with TimestampedValue[V]
    with AddressedValue {

  override def address: Int = column.recent

  override def expectAt(address: Int): Unit = column.recent = address

  override def value(): V = {
    backend.checkAccess()
    read(backend.prefix)
  }

  override def find(): Boolean = {
    backend.checkAccess()
    find(backend.prefix)
  }

  override def setTimestamp(timestamp: Long): Unit = table.setTimestamp(column, backend.prefix, timestamp)

  override def put(value: V, timestamp: Long): Unit = {
    backend.checkAccess()
    store(backend.prefix, value, timestamp)
  }

  override def clear(): Unit = {
    backend.checkAccess()
    table.delete(column, backend.prefix)
  }
}
