package io.pillarbox.api;

/** State that takes elements in and gives an aggregate of them out. */
public interface AppendingState<IN, OUT> extends State {

  /** Returns the aggregate of what was added; null (for lists, nothing to iterate over) if it is empty. */
  OUT get();

  /**
   * Adds an element.
   *
   * @throws IllegalArgumentException if it is null: null is not a value
   */
  void add(IN value);
}
