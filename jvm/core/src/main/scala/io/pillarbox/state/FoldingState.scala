package io.pillarbox.state

/** An accumulator that elements are folded into, over any backend's way to keep one object a key. */
private[state] trait FoldingState[IN, ACC, OUT] extends AppendingState[IN, OUT] {
  def descriptor: StateDescriptor[_]

  /** The accumulator, or null. */
  protected def read(): ACC

  protected def write(acc: ACC): Unit

  /** `acc` is null if nothing was added yet. */
  protected def fold(acc: ACC, value: IN): ACC

  override final def add(value: IN): Unit = {
    if (value == null) throw StateErrors.nullValue(descriptor.name, "an element")
    write(fold(read(), value))
  }
}

/** The accumulator is what a [[ReduceFunction]] made of the elements. */
private[state] trait FoldingReducingState[T] extends FoldingState[T, T, T] with ReducingState[T] {
  protected def reduce: ReduceFunction[T]

  override final def get(): T = read()

  override protected final def fold(acc: T, value: T): T =
    if (acc == null) value else reduce.reduce(acc, value)
}

/** The accumulator is an [[AggregateFunction]]'s. */
private[state] trait FoldingAggregatingState[IN, ACC, OUT]
    extends FoldingState[IN, ACC, OUT]
    with AggregatingState[IN, OUT] {
  protected def aggregate: AggregateFunction[IN, ACC, OUT]

  override final def get(): OUT = {
    val acc = read()
    if (acc == null) null.asInstanceOf[OUT] else aggregate.getResult(acc)
  }

  override protected final def fold(acc: ACC, value: IN): ACC =
    aggregate.add(value, if (acc == null) aggregate.createAccumulator() else acc)
}
