package io.pillarbox.state

import io.pillarbox.api.{
  AggregateFunction,
  AggregatingState,
  Folding,
  ReduceFunction,
  ReducingState,
  State,
  StateDescriptor,
  ValueState
}

/** An aggregate of all that was added, kept as a value. */
private[state] final class FoldedReducingState[T](
    value: ValueState[T],
    descriptor: StateDescriptor[_],
    reduce: ReduceFunction[T]
) extends ReducingState[T] {

  override def get(): T = value.value()

  override def add(element: T): Unit = {
    FoldingState.require(element, descriptor)
    val known = value.value()
    value.update(if (known == null) element else reduce.reduce(known, element))
  }

  override def clear(): Unit = value.clear()
}

/** An accumulator kept as a value, into which elements are folded. */
private[state] final class FoldedAggregatingState[IN, ACC, OUT](
    value: ValueState[ACC],
    descriptor: StateDescriptor[_],
    aggregate: AggregateFunction[IN, ACC, OUT]
) extends AggregatingState[IN, OUT] {

  override def get(): OUT = {
    val known = value.value()
    if (known == null) null.asInstanceOf[OUT] else aggregate.getResult(known)
  }

  override def add(element: IN): Unit = {
    FoldingState.require(element, descriptor)
    val known = value.value()
    value.update(aggregate.add(element, if (known == null) aggregate.createAccumulator() else known))
  }

  override def clear(): Unit = value.clear()
}

private[state] object FoldingState {

  /** Returns the handle of `descriptor`, given the handle on its kept value. */
  def over(kept: State, descriptor: StateDescriptor[_]): State = Folding.of(descriptor) match {
    case reduce: ReduceFunction[t] =>
      new FoldedReducingState(kept.asInstanceOf[ValueState[t]], descriptor, reduce)
    case aggregate: AggregateFunction[i, a, o] =>
      new FoldedAggregatingState(kept.asInstanceOf[ValueState[a]], descriptor, aggregate)
    case _ => kept
  }

  def require(element: Any, descriptor: StateDescriptor[_]): Unit =
    if (element == null) throw StateErrors.nullValue(descriptor.name, "an element")
}
