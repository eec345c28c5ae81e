package io.pillarbox.api;

/** A list a key, in the order of addition. */
public interface ListState<T> extends AppendingState<T, Iterable<T>> {

  /**
   * The elements. The list is read when it is iterated over, each time anew; an iterator fails with
   * ConcurrentModificationException once the list is changed.
   */
  @Override
  Iterable<T> get();

  /**
   * Adds all or, if one is null, none.
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
