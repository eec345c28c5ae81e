package io.pillarbox.api;

/** An aggregate of all that was added, of the same type. */
public interface ReducingState<T> extends AppendingState<T, T> {}
