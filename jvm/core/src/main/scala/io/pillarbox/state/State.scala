package io.pillarbox.state

import java.util.Map.Entry

/**
 * A handle on one named state of the current key and namespace.
 *
 * Every call acts on the key set last by [[KeyedStateBackend.setCurrentKey]], on the owner thread only.
 *
 * @throws StateAccessException from every method, when no key is set or another thread calls
 */
trait State {

  /** Removes what the current key holds in this state. No-op if it holds nothing. */
  def clear(): Unit
}

/** One value a key. */
trait ValueState[T] extends State {

  /** The value, or null if there is none (or it is expired). The object is the stored one: don't change it. */
  def value(): T

  /** Replaces the value; null clears it. */
  def update(value: T): Unit
}

/** State that takes elements in and gives an aggregate of them out. */
trait AppendingState[IN, OUT] extends State {

  /** What was added, aggregated; null (an empty iterator for lists) if nothing is there. */
  def get(): OUT

  /**
   * Adds an element.
   *
   * @throws IllegalArgumentException if it is null: null is not a value
   */
  def add(value: IN): Unit
}

/** A list a key, in the order of addition. */
trait ListState[T] extends AppendingState[T, Iterator[T]] {

  /** The elements, empty if there are none; fails with ConcurrentModificationException once the list is changed. */
  def get(): Iterator[T]

  def addAll(values: Iterable[T]): Unit

  /** Replaces the list; an empty one clears it. */
  def update(values: Iterable[T]): Unit
}

/** A map a key. Values are never null. Iteration is in no order that a caller may rely on. */
trait MapState[UK, UV] extends State {

  /** The value of `key`, or null. */
  def get(key: UK): UV

  /** @throws IllegalArgumentException if key or value is null */
  def put(key: UK, value: UV): Unit

  def putAll(entries: Iterable[(UK, UV)]): Unit

  def remove(key: UK): Unit

  /** Whether `key` has a value. Counts as a read for TTL. */
  def contains(key: UK): Boolean

  /** Whether no entry is alive; expired ones don't count. */
  def isEmpty: Boolean

  def keys: StateIterator[UK]

  def values: StateIterator[UV]

  /**
   * The entries. An entry's `setValue` is a [[put]] under its key, which no iteration minds.
   *
   * @throws ConcurrentModificationException from `setValue`, where the iterator would throw it
   * @throws IllegalStateException from `setValue`, if the entry is no longer in the map
   */
  def entries: StateIterator[Entry[UK, UV]]
}

/** An aggregate of all that was added, of the same type. */
trait ReducingState[T] extends AppendingState[T, T]

/** An aggregate of all that was added, kept as an accumulator. */
trait AggregatingState[IN, OUT] extends AppendingState[IN, OUT]

/**
 * An iterator over state that can remove what it returned last.
 *
 * Changing the map otherwise (a new entry, a removal, another current key) ends the iteration with a
 * ConcurrentModificationException at the next call; replacing the value of an entry that exists does not, and is seen
 * if the entry is still to come.
 */
trait StateIterator[T] extends Iterator[T] {

  /**
   * Removes the entry that `next` returned last.
   *
   * @throws IllegalStateException if `next` wasn't called since the last removal
   */
  def remove(): Unit
}

/** Combines two values of a [[ReducingState]]. Must be associative and must not change its arguments. */
trait ReduceFunction[T] extends Serializable {
  def reduce(left: T, right: T): T
}

/** Folds elements into the accumulator of an [[AggregatingState]]. `add` may change and return `acc`. */
trait AggregateFunction[IN, ACC, OUT] extends Serializable {
  def createAccumulator(): ACC
  def add(value: IN, acc: ACC): ACC
  def getResult(acc: ACC): OUT
}
