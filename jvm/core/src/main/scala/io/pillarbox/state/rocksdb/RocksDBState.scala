package io.pillarbox.state.rocksdb

import io.pillarbox.state._
import io.pillarbox.state.serialization.{InputView, OutputView, TypeSerializer}
import io.pillarbox.state.ttl.TtlPolicy

/** What RocksDB's handles share: keys as bytes, values with their timestamp before them, TTL, the listener. */
private[rocksdb] abstract class RocksDBState[K, V](
    protected val backend: RocksDBKeyedStateBackend[K],
    val descriptor: StateDescriptor[_],
    val column: StateColumn
) extends State {
  protected final val table: EntryStore = backend.entries
  protected final val policy: TtlPolicy = TtlPolicy.of(descriptor.ttl, backend)
  protected final val serializer: TypeSerializer[V] =
    descriptor.valueSerializer.asInstanceOf[TypeSerializer[V]]
  protected final val out = new OutputView(256)
  private[this] val listener = descriptor.onExpire.orNull
  private[this] val stored = new InputView

  /** A composite key under construction; the part before the user key is kept while the context is the same. */
  private[this] val key = new OutputView(128)
  private[this] var keyContext = -1L
  private[this] var prefixLength = 0

  /** Of lists: the number of the next element. */
  def nextSequence: Long = 0L

  /** How many entries of the state lie in one of RocksDB. */
  def entriesIn(value: Array[Byte]): Int = 1

  /** The key of the current context, to which a user key can be appended. */
  protected final def openKey(): OutputView = {
    if (keyContext != backend.contextVersion) {
      key.clear()
      key.writeBytes(backend.prefix.array, 0, backend.prefix.length)
      prefixLength = key.length
      keyContext = backend.contextVersion
    } else key.truncate(prefixLength)
    key
  }

  protected final def prefixBytes(): Array[Byte] = openKey().toByteArray

  /** Writes a value under TTL or not; `stamp` only counts under TTL. */
  protected final def store(at: OutputView, value: V, stamp: Long): Unit = {
    out.clear()
    if (policy != null) out.writeLong(stamp)
    serializer.serialize(value, out)
    table.put(column, at, out)
    out.shrinkTo(RocksDBState.MaxIdleBuffer)
  }

  /** The timestamp for a write to `at`. Reads what is there only if that matters. */
  protected final def stampFor(at: OutputView, now: Long): Long =
    if (policy == null) 0L
    else if (policy.needsStored && table.get(column, at)) policy.stamp(now, table.value.readLong())
    else policy.stamp(now)

  /** What the entry with this key is stamped with. */
  protected final def timestampAt(at: OutputView): Long =
    if (policy == null || !table.get(column, at)) StateClock.Unknown else policy.known(table.value.readLong())

  protected final def now(): Long = if (policy == null) 0L else policy.now

  /** The value of an entry with this key; null if it is absent or expired. An expired one is removed. */
  protected final def read(at: OutputView, userKey: Any): V =
    if (!table.get(column, at)) null.asInstanceOf[V]
    else if (policy == null) serializer.deserialize(table.value)
    else readAlive(at, userKey)

  private[this] def readAlive(at: OutputView, userKey: Any): V = {
    val time = policy.now
    val timestamp = table.value.readLong()
    val value = serializer.deserialize(table.value)
    if (policy.isExpired(timestamp, policy.limit(time))) {
      table.delete(column, at)
      metExpired()
      tellExpired(userKey, value)
      if (policy.returnsExpired) value else null.asInstanceOf[V]
    } else {
      renewIfDue(at, timestamp, time)
      value
    }
  }

  /** Gives the entry a new timestamp if reading renews it, or its first one. */
  protected final def renewIfDue(at: OutputView, timestamp: Long, time: Long): Unit = {
    val stamp = policy.afterRead(time, timestamp)
    if (stamp != timestamp && table.get(column, at)) table.restamp(column, at, stamp)
  }

  /** Called when a read removes an expired entry. */
  protected def metExpired(): Unit = ()

  protected final def tellExpired(userKey: Any, value: Any): Unit = if (listener != null) {
    val (key, namespace) = (backend.currentKey, backend.namespace)
    backend.withoutKey(listener.onExpire(key, namespace, userKey, value))
  }

  /** A view on stored bytes; one a state. */
  protected final def viewOn(bytes: Array[Byte]): InputView = viewOn(bytes, 0, bytes.length)

  protected final def viewOn(bytes: Array[Byte], offset: Int, length: Int): InputView =
    stored.wrap(bytes, offset, length)
}

private[rocksdb] object RocksDBState {
  final val MaxIdleBuffer: Int = 1 << 20
}
