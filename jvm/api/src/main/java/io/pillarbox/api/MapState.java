package io.pillarbox.api;

import java.util.Iterator;
import java.util.Map;

/**
 * A map a key. Values are never null. Iteration is in no order that a caller may rely on.
 *
 * <p>An iterator can remove what it returned last. Changing the map otherwise (a new entry, a removal,
 * another current key) ends the iteration with a ConcurrentModificationException at the next call; replacing
 * the value of an entry that exists does not, and is seen if the entry is still to come.
 */
public interface MapState<UK, UV> extends State, Iterable<Map.Entry<UK, UV>> {

  /** The value of {@code key}, or null. */
  UV get(UK key);

  /** @throws IllegalArgumentException if key or value is null */
  void put(UK key, UV value);

  /** Puts one entry after the other. */
  default void putAll(Map<? extends UK, ? extends UV> entries) {
    entries.forEach(this::put);
  }

  /** Removes the entry. No-op if there is no such entry. */
  void remove(UK key);

  /** Tells if {@code key} has a value. Counts as a read for TTL. */
  boolean contains(UK key);

  /** Tells if no entry is alive; expired ones don't count. */
  boolean isEmpty();

  /**
   * Walks over the entries. An entry's {@code setValue} is a {@link #put} under its key, which no iteration
   * minds; it throws IllegalStateException if the entry is no longer in the map.
   */
  @Override
  Iterator<Map.Entry<UK, UV>> iterator();

  /** Returns the keys; each iteration walks over the map anew. */
  default Iterable<UK> keys() {
    return this::keyIterator;
  }

  /** Returns the values; each iteration walks over the map anew. */
  default Iterable<UV> values() {
    return this::valueIterator;
  }

  /** Walks over the keys. */
  Iterator<UK> keyIterator();

  /** Walks over the values. */
  Iterator<UV> valueIterator();
}
