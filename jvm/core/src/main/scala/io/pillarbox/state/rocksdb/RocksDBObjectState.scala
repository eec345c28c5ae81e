package io.pillarbox.state.rocksdb

import io.pillarbox.state._

/** One entry a key: values, and the accumulators of the appending states. */
private[rocksdb] abstract class RocksDBObjectState[K, V](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    column: StateColumn
) extends RocksDBState[K, V](backend, descriptor, column)
    with TimestampedValue[V]
    with AddressedValue {

  override final def address: Int = column.recent

  override final def expectAt(address: Int): Unit = column.recent = address

  override final def timestamp: Long = {
    backend.checkAccess()
    timestampAt(backend.prefix)
  }

  protected final def read(): V = {
    backend.checkAccess()
    read(backend.prefix, null)
  }

  protected final def write(value: V): Unit = {
    backend.checkAccess()
    val at = backend.prefix
    store(at, value, stampFor(at, now()))
  }

  override final def write(value: V, timestamp: Long): Unit = {
    backend.checkAccess()
    store(backend.prefix, value, timestamp)
  }

  override def clear(): Unit = {
    backend.checkAccess()
    table.delete(column, backend.prefix)
  }
}

private[rocksdb] final class RocksDBValueState[K, V](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    column: StateColumn
) extends RocksDBObjectState[K, V](backend, descriptor, column)
    with ValueState[V] {

  override def value(): V = read()

  override def update(value: V): Unit = if (value == null) clear() else write(value)
}

private[rocksdb] final class RocksDBReducingState[K, T](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: ReducingStateDescriptor[T],
    column: StateColumn
) extends RocksDBObjectState[K, T](backend, descriptor, column)
    with FoldingReducingState[T] {
  override protected val reduce: ReduceFunction[T] = descriptor.reduce
}

private[rocksdb] final class RocksDBAggregatingState[K, IN, ACC, OUT](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: AggregatingStateDescriptor[IN, ACC, OUT],
    column: StateColumn
) extends RocksDBObjectState[K, ACC](backend, descriptor, column)
    with FoldingAggregatingState[IN, ACC, OUT] {
  override protected val aggregate: AggregateFunction[IN, ACC, OUT] = descriptor.aggregate
}
