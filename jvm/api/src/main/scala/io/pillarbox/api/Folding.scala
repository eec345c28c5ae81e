package io.pillarbox.api

/** Gives Pillarbox the parts of a descriptor that are not public. */
private[pillarbox] object Folding {

  /** The [[ReduceFunction]] or [[AggregateFunction]]; null for the other kinds. */
  def of(descriptor: StateDescriptor[_]): AnyRef = descriptor.folding
}
