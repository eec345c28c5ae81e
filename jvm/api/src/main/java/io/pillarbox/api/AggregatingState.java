package io.pillarbox.api;

/** An aggregate of all that was added, kept as an accumulator. */
public interface AggregatingState<IN, OUT> extends AppendingState<IN, OUT> {}
