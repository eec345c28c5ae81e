package io.pillarbox.api

/** What Pillarbox knows of a descriptor and a function's author need not. */
private[pillarbox] object Folding {

  /** The [[ReduceFunction]] or [[AggregateFunction]]; null for the other kinds. */
  def of(descriptor: StateDescriptor[_]): AnyRef = descriptor.folding
}
