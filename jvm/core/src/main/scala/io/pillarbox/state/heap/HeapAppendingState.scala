package io.pillarbox.state.heap

import io.pillarbox.state._

private[heap] final class HeapReducingState[K, T](
    backend: HeapKeyedStateBackend[K],
    descriptor: ReducingStateDescriptor[T],
    id: Int
) extends HeapObjectState[K, T](backend, descriptor, id)
    with FoldingReducingState[T] {
  override protected val reduce: ReduceFunction[T] = descriptor.reduce
}

private[heap] final class HeapAggregatingState[K, IN, ACC, OUT](
    backend: HeapKeyedStateBackend[K],
    descriptor: AggregatingStateDescriptor[IN, ACC, OUT],
    id: Int
) extends HeapObjectState[K, ACC](backend, descriptor, id)
    with FoldingAggregatingState[IN, ACC, OUT] {
  override protected val aggregate: AggregateFunction[IN, ACC, OUT] = descriptor.aggregate
}
