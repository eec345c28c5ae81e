package io.pillarbox.api;

/** State that takes elements in and gives an aggregate of them out. */
public interface AppendingState<IN, OUT> extends State {

  /** Returns the aggregate of what was added; null (nothing to iterate over for lists) if nothing is there. */
  OUT get();

  /**
   * Adds an element.
   *
   * @throws IllegalArgumentException if it is null: null is not a value
   */
  void add(IN value);
}
