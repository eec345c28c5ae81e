package io.pillarbox.state.ttl

import io.pillarbox.api.{State, StateDescriptor, ValueState}
import io.pillarbox.state._

/** The common part of the layers over the kinds of state: the policy, the clean-up, the listener. */
private[ttl] sealed abstract class TtlLayer(
    raw: Timestamped,
    policy: TtlPolicy,
    backend: KeyedStateBackend[_]
) extends State {
  private val listener = raw.descriptor.expiryListener.orElse(null)

  /** Passes removed values on to the listener. */
  protected final val gone: ExpirySink =
    if (listener == null) ExpirySink.None
    else
      (key, _, userKey, value) => backend.withoutKey(listener.onExpire(key, userKey, value))
  protected final val cleaner = new Cleaner(policy, raw, backend, gone)

  override final def clear(): Unit = {
    cleaner.now(): Unit
    raw.clear()
  }

  /** Tells of a removed, expired value of the current key; returns it if it may be seen once more. */
  protected final def told[V](userKey: Any, value: V): V = {
    if (listener != null) gone.onExpire(backend.currentKey, backend.namespace, userKey, value)
    if (policy.returnsExpired) value else null.asInstanceOf[V]
  }
}

private final class TtlValueState[V](
    raw: TimestampedValue[V],
    policy: TtlPolicy,
    backend: KeyedStateBackend[_]
) extends TtlLayer(raw, policy, backend)
    with ValueState[V] {

  override def value(): V = {
    val now = cleaner.now()
    val value = raw.value()
    if (value == null) value
    else {
      val timestamp = raw.timestamp
      if (policy.isExpired(timestamp, now)) {
        raw.clear()
        told(null, value)
      } else {
        val next = policy.afterRead(now, timestamp)
        if (next != timestamp) raw.setTimestamp(next)
        value
      }
    }
  }

  override def update(value: V): Unit = if (value == null) clear()
  else {
    val now = cleaner.now()
    raw.put(
      value,
      if (policy.needsStored && raw.find()) policy.timestampAt(now, raw.timestamp)
      else policy.timestampAt(now)
    )
  }
}

private final class TtlListState[T](raw: TimestampedList[T], policy: TtlPolicy, backend: KeyedStateBackend[_])
    extends TtlLayer(raw, policy, backend)
    with IteratedList[T] {

  override def elements: Iterator[T] = {
    val now = cleaner.now()
    if (policy.returnsExpired) readAll(now) else read(now, gone)
  }

  private def read(now: Long, gone: ExpirySink): Iterator[T] =
    raw.read(policy.limit(now), policy.raise(now), policy.first(now), gone)

  /** Reads the list with the elements that have just expired in their places. */
  private def readAll(now: Long): Iterator[T] = {
    val all = raw.elements.toVector
    var isAll = true
    val alive = read(
      now,
      (key, namespace, userKey, value) => {
        isAll = false
        gone.onExpire(key, namespace, userKey, value)
      }
    )
    if (isAll) alive else all.iterator
  }

  override def add(value: T): Unit = raw.add(value, policy.timestampAt(cleaner.now()))

  override def addElements(values: Iterable[T]): Unit = raw.addAll(values, policy.timestampAt(cleaner.now()))

  override def replaceBy(values: Iterable[T]): Unit = raw.update(values, policy.timestampAt(cleaner.now()))
}

private final class TtlMapState[UK, UV](
    raw: TimestampedMap[UK, UV],
    policy: TtlPolicy,
    backend: KeyedStateBackend[_]
) extends TtlLayer(raw, policy, backend)
    with IteratedMap[UK, UV] {
  override def descriptor: StateDescriptor[_] = raw.descriptor

  override def get(key: UK): UV = {
    val now = cleaner.now()
    val value = raw.get(key)
    if (value == null) value
    else {
      val timestamp = raw.timestamp
      if (policy.isExpired(timestamp, now)) {
        raw.remove(key)
        told(key, value)
      } else {
        val next = policy.afterRead(now, timestamp)
        if (next != timestamp) raw.setTimestamp(next)
        value
      }
    }
  }

  override def put(key: UK, value: UV): Unit = {
    val now = cleaner.now()
    if (policy.needsStored && raw.find(key)) raw.replace(key, value, policy.timestampAt(now, raw.timestamp))
    else raw.put(key, value, policy.timestampAt(now))
  }

  override def remove(key: UK): Unit = {
    cleaner.now(): Unit
    raw.remove(key)
  }

  override def contains(key: UK): Boolean = get(key) != null

  /** Expired entries that may be seen once more are left for that. */
  override def isEmpty: Boolean = {
    val now = cleaner.now()
    val cursor = raw.cursor(few = true)
    var isEmpty = true
    while (isEmpty && cursor.next())
      if (!policy.isExpired(cursor.timestamp, now)) isEmpty = false
      else if (!policy.returnsExpired) drop(cursor): Unit
    isEmpty
  }

  override protected def isThere(key: UK): Boolean = raw.find(key)

  override protected def cursor(): TimestampedCursor[UK, UV] =
    new Judged(cleaner.now(), raw.cursor(few = false))

  /** Removes an expired entry; returns its value if it may be seen once more. */
  private def drop(at: TimestampedCursor[UK, UV]): UV = {
    val (key, value) = (at.key, at.value)
    at.take()
    at.remove()
    told(key, value)
  }

  /** A walk over the entries that may be seen. */
  private final class Judged(now: Long, at: TimestampedCursor[UK, UV]) extends TimestampedCursor[UK, UV] {

    /** The value of an expired entry, which is removed already. */
    private var expired: UV = _
    private var tookExpired = false

    override def next(): Boolean = {
      expired = null.asInstanceOf[UV]
      var found = false
      var more = true
      while (!found && more)
        if (!at.next()) more = false
        else if (policy.isExpired(at.timestamp, now)) {
          expired = drop(at)
          found = expired != null
        } else {
          renew()
          found = true
        }
      found
    }

    private def renew(): Unit = {
      val timestamp = at.timestamp
      val next = policy.afterRead(now, timestamp)
      if (next != timestamp) at.setTimestamp(next)
    }

    override def key: UK = at.key
    override def value: UV = if (expired == null) at.value else expired
    override def timestamp: Long = at.timestamp
    override def place: Array[Byte] = at.place
    override def setTimestamp(timestamp: Long): Unit = at.setTimestamp(timestamp)
    override def check(): Unit = at.check()

    override def take(): Unit = {
      tookExpired = expired != null
      if (!tookExpired) at.take()
    }

    override def remove(): Unit = if (!tookExpired) at.remove()
  }
}

private[state] object TtlStates {

  /** Returns the state as the user gets it: raw without TTL, else a layer over it. */
  def over(raw: Timestamped, backend: KeyedStateBackend[_]): State =
    TtlPolicy.of(raw.descriptor, backend).fold[State](raw) { policy =>
      raw match {
        case value: TimestampedValue[t] => new TtlValueState[t](value, policy, backend)
        case list: TimestampedList[t] => new TtlListState[t](list, policy, backend)
        case map: TimestampedMap[k, v] => new TtlMapState[k, v](map, policy, backend)
      }
    }
}
