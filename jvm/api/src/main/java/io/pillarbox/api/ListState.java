package io.pillarbox.api;

/** A list a key, in the order of addition. */
public interface ListState<T> extends AppendingState<T, Iterable<T>> {

  /**
   * Returns the elements as they are now. Iterating fails with ConcurrentModificationException once the list
   * is changed; a second iteration reads the list anew.
   */
  @Override
  Iterable<T> get();

  /**
   * Adds all or, if one is null, none. {@code values} is iterated over once.
   *
   * @throws IllegalArgumentException if an element is null
   */
  void addAll(Iterable<? extends T> values);

  /**
   * Replaces the list; an empty one clears it.
   *
   * @throws IllegalArgumentException if an element is null; the list stays as it was
   */
  void update(Iterable<? extends T> values);
}
