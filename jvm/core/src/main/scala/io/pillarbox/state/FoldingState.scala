package io.pillarbox.state

/** An aggregate of all that was added, kept as a value. */
final private[state] class FoldedReducingState[T](
    value: ValueState[T],
    descriptor: ReducingStateDescriptor[T]
) extends ReducingState[T] {
  private[this] val reduce = descriptor.reduce

  override def get(): T = value.value()

  override def add(element: T): Unit = {
    FoldingState.require(element, descriptor)
    val known = value.value()
    value.update(if (known == null) element else reduce.reduce(known, element))
  }

  override def clear(): Unit = value.clear()
}

/** An accumulator kept as a value, into which elements are folded. */
final private[state] class FoldedAggregatingState[IN, ACC, OUT](
    value: ValueState[ACC],
    descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
) extends AggregatingState[IN, OUT] {
  private[this] val aggregate = descriptor.aggregate

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

  /** The handle of `descriptor`, given the handle on what is kept. */
  def over(kept: State, descriptor: StateDescriptor[_]): State = descriptor match {
    case reducing: ReducingStateDescriptor[t] =>
      new FoldedReducingState(kept.asInstanceOf[ValueState[t]], reducing)
    case aggregating: AggregatingStateDescriptor[i, a, o] =>
      new FoldedAggregatingState(kept.asInstanceOf[ValueState[a]], aggregating)
    case _ => kept
  }

  def require(element: Any, descriptor: StateDescriptor[_]): Unit =
    if (element == null) throw StateErrors.nullValue(descriptor.name, "an element")
}
