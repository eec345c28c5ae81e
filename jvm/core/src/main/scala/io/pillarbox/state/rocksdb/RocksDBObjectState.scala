package io.pillarbox.state.rocksdb

import io.pillarbox.state._

/** One entry a key: values, and the accumulators of the appending states. */
private[rocksdb] abstract class RocksDBObjectState[K, V](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    column: StateColumn
) extends RocksDBState[K, V](backend, descriptor, column)
    with TimestampedValue {

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

/** What reducing and aggregating states share: an accumulator that elements are added to and that can be merged. */
private[rocksdb] abstract class RocksDBAppendingState[K, IN, ACC, OUT](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    column: StateColumn
) extends RocksDBObjectState[K, ACC](backend, descriptor, column)
    with MergingState[IN, OUT] {

  /** `acc` is null if nothing was added yet. */
  protected def fold(acc: ACC, value: IN): ACC

  protected def merge(left: ACC, right: ACC): ACC

  override def add(value: IN): Unit = {
    if (value == null) throw StateErrors.nullValue(descriptor.name, "an element")
    write(fold(read(), value))
  }

  override def mergeNamespaces(target: Namespace, sources: Iterable[Namespace]): Unit =
    NamespaceMerge(backend, target, sources)(
      () => { val acc = read(); clear(); acc },
      (all: Seq[ACC]) => {
        val own = read()
        write((if (own == null) all else own +: all).reduceLeft((l, r) => merge(l, r)))
      }
    )
}

private[rocksdb] final class RocksDBReducingState[K, T](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: ReducingStateDescriptor[T],
    column: StateColumn
) extends RocksDBAppendingState[K, T, T, T](backend, descriptor, column)
    with ReducingState[T] {

  override def get(): T = read()

  override protected def fold(acc: T, value: T): T =
    if (acc == null) value else descriptor.reduce.reduce(acc, value)

  override protected def merge(left: T, right: T): T = descriptor.reduce.reduce(left, right)
}

private[rocksdb] final class RocksDBAggregatingState[K, IN, ACC, OUT](
    backend: RocksDBKeyedStateBackend[K],
    descriptor: AggregatingStateDescriptor[IN, ACC, OUT],
    column: StateColumn
) extends RocksDBAppendingState[K, IN, ACC, OUT](backend, descriptor, column)
    with AggregatingState[IN, OUT] {
  private[this] val function = descriptor.aggregate

  override def get(): OUT = {
    val acc = read()
    if (acc == null) null.asInstanceOf[OUT] else function.getResult(acc)
  }

  override protected def fold(acc: ACC, value: IN): ACC =
    function.add(value, if (acc == null) function.createAccumulator() else acc)

  override protected def merge(left: ACC, right: ACC): ACC = function.merge(left, right)
}
