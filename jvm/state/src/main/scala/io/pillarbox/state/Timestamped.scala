package io.pillarbox.state

import io.pillarbox.api.{State, StateDescriptor, ValueState}

/**
 * State as a backend keeps it, a timestamp beside each entry of a state under TTL, in milliseconds since
 * 1970. Nothing expires here: the callers judge timestamps, which are the TTL layer, and an operator that
 * applies TTL outside of this process.
 *
 * An entry whose time is not known is stamped [[StateClock.Unknown]]. Without TTL all are, and given
 * timestamps are ignored.
 */
private[pillarbox] sealed trait Timestamped extends State {
  def descriptor: StateDescriptor[_]

  /** True if [[sweep]] does anything. */
  def sweeps: Boolean

  /**
   * Looks at the next `count` entries of all keys, round and round; but not into the current key's list or
   * map, which may be iterated over. Removes those that [[Timestamped.isUpTo]]. The heap then tells them to
   * `gone`, and gives the others the timestamp `first` if they have none; RocksDB may put some off.
   */
  def sweep(count: Int, upTo: Long, first: Long, gone: ExpirySink): Unit
}

private[pillarbox] object Timestamped {

  /**
   * True if an entry of this timestamp lived up to `upTo` at most; one without counts as stamped `first`,
   * if that is known.
   */
  def isUpTo(timestamp: Long, upTo: Long, first: Long): Boolean =
    timestamp <= upTo && {
      val life = if (timestamp == StateClock.Unknown) first else timestamp
      life <= upTo && life != StateClock.Unknown
    }
}

/** The current key's value, or accumulator. */
private[pillarbox] trait TimestampedValue[T] extends ValueState[T] with Timestamped {

  /** Tells if there is a value. */
  def find(): Boolean

  /** The timestamp of the value that `find` or `value` has just found. */
  def timestamp: Long

  /** Gives the value that `find` or `value` has just found another timestamp. */
  def setTimestamp(timestamp: Long): Unit

  def put(value: T, timestamp: Long): Unit

  override final def update(value: T): Unit =
    if (value == null) clear() else put(value, StateClock.Unknown)
}

/**
 * A value that knows where it was found, so that an operator that comes back to many keys needs no second
 * look-up.
 */
private[pillarbox] trait AddressedValue {

  /** The place where the last access found the value; good until the backend empties its cache. */
  def address: Int

  /** Makes the next access look there first; for a wrong number it searches as usual. */
  def expectAt(address: Int): Unit
}

/** The current key's list. */
private[pillarbox] trait TimestampedList[T] extends IteratedList[T] with Timestamped {

  /** The timestamps of the elements, in their order. */
  def timestamps: Iterator[Long]

  /**
   * Gives elements and their timestamps to `take`, in order, from [[TimestampedList.First]] on or from the
   * place that an earlier call has returned. Ends soon after `take` is false, so that a list is read a part
   * at a time, also while other keys become the current one in between.
   *
   * @return
   *   the place of the next element, which is good until the list changes; [[TimestampedList.End]] for none
   */
  def page(from: Long)(take: (T, Long) => Boolean): Long

  def add(value: T, timestamp: Long): Unit

  /** Adds all or, if one is null, none. */
  def addAll(values: Iterable[T], timestamp: Long): Unit

  /**
   * Removes the elements that [[Timestamped.isUpTo]] and tells them to `gone`; gives those that stay the
   * timestamp `first` if they have none, and raises all to `raiseTo` by one write. Each of the three may be
   * Unknown, which turns it off. Returns the elements that stay.
   */
  def read(upTo: Long, raiseTo: Long, first: Long, gone: ExpirySink): Iterator[T]

  final def update(values: Iterable[T], timestamp: Long): Unit = {
    val all = values.toVector
    all.foreach(requireValue)
    clear()
    addAll(all, timestamp)
  }

  override final def add(value: T): Unit = add(value, StateClock.Unknown)

  override final def addElements(values: Iterable[T]): Unit = addAll(values, StateClock.Unknown)

  override final def replaceBy(values: Iterable[T]): Unit = update(values, StateClock.Unknown)

  protected final def requireValue(value: T): Unit =
    if (value == null) throw StateErrors.nullValue(descriptor.name, "an element")
}

private[pillarbox] object TimestampedList {
  final val First = 0L
  final val End = -1L
}

/** The current key's map. */
private[pillarbox] trait TimestampedMap[UK, UV] extends IteratedMap[UK, UV] with Timestamped {

  /** Tells if there is an entry of this key. */
  def find(key: UK): Boolean

  /** The timestamp of the entry that `find` or `get` has just found. */
  def timestamp: Long

  /** Gives the entry that `find` or `get` has just found another timestamp. */
  def setTimestamp(timestamp: Long): Unit

  /** Gives the entry that `find` has just found, of this key, another value and timestamp. */
  def replace(key: UK, value: UV, timestamp: Long): Unit

  def put(key: UK, value: UV, timestamp: Long): Unit

  /** Walks over the entries; `few` if the walk mostly ends after the first ones. */
  def cursor(few: Boolean): TimestampedCursor[UK, UV]

  /** Walks over the entries behind the [[TimestampedCursor.place]] of an earlier walk. */
  def cursorBehind(place: Array[Byte]): TimestampedCursor[UK, UV]

  override final def put(key: UK, value: UV): Unit = put(key, value, StateClock.Unknown)

  override final def contains(key: UK): Boolean = find(key)

  override protected final def cursor(): TimestampedCursor[UK, UV] = cursor(few = false)

  override protected final def isThere(key: UK): Boolean = find(key)

  protected final def requireKey(key: UK): Unit =
    if (key == null) throw StateErrors.nullValue(descriptor.name, "a map key")

  protected final def requireValue(value: UV): Unit =
    if (value == null) throw StateErrors.nullValue(descriptor.name, "a map value")
}

/**
 * A walk over the entries of a map. It ends with a ConcurrentModificationException as an iterator of
 * [[io.pillarbox.api.MapState]] does.
 */
private[pillarbox] trait TimestampedCursor[UK, UV] {

  /** Moves to the next entry; false at the end. */
  def next(): Boolean

  def key: UK

  /** The entry's value at this moment. */
  def value: UV

  def timestamp: Long

  /** The place of this entry, which is good until the map changes. */
  def place: Array[Byte]

  def setTimestamp(timestamp: Long): Unit

  /** Makes this entry the one that [[remove]] removes, wherever the walk has come to by then. */
  def take(): Unit

  def remove(): Unit

  /** @throws java.util.ConcurrentModificationException if the map or the current key changed otherwise */
  def check(): Unit
}

/**
 * Takes what a backend has removed because it was expired: key, namespace, user key (null but for maps),
 * value.
 */
private[pillarbox] trait ExpirySink {
  def onExpire(key: Any, namespace: Namespace, userKey: Any, value: Any): Unit
}

private[pillarbox] object ExpirySink {

  val None: ExpirySink = (_, _, _, _) => ()
}
