package io.pillarbox.state.heap

import io.pillarbox.state._

/** What reducing and aggregating states share: an accumulator that elements are added to and that can be merged. */
private[heap] abstract class HeapAppendingState[K, IN, ACC, OUT](
    backend: HeapKeyedStateBackend[K],
    descriptor: StateDescriptor[_],
    id: Int
) extends HeapObjectState[K, ACC](backend, descriptor, id)
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

private[heap] final class HeapReducingState[K, T](
    backend: HeapKeyedStateBackend[K],
    descriptor: ReducingStateDescriptor[T],
    id: Int
) extends HeapAppendingState[K, T, T, T](backend, descriptor, id)
    with ReducingState[T] {

  override def get(): T = read()

  override protected def fold(acc: T, value: T): T =
    if (acc == null) value else descriptor.reduce.reduce(acc, value)

  override protected def merge(left: T, right: T): T = descriptor.reduce.reduce(left, right)
}

private[heap] final class HeapAggregatingState[K, IN, ACC, OUT](
    backend: HeapKeyedStateBackend[K],
    descriptor: AggregatingStateDescriptor[IN, ACC, OUT],
    id: Int
) extends HeapAppendingState[K, IN, ACC, OUT](backend, descriptor, id)
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
