package io.pillarbox.state.rocksdb

import scala.annotation.unused

import io.pillarbox.api.StateDescriptor.Kind
import io.pillarbox.api.{InputView, OutputView, State, StateDescriptor, TimeDomain, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.rocksdb.entries.{EntryStore, StateColumn}

/** The common part of RocksDB's handles: keys as bytes, values with their timestamp before them. */
private[rocksdb] abstract class RocksDBState[K, V](
    protected val backend: RocksDBKeyedStateBackend[K],
    val descriptor: StateDescriptor[_],
    val column: StateColumn
) extends State {
  protected final val table: EntryStore = backend.entries
  protected final val hasTimestamps: Boolean = descriptor.ttl.isPresent
  protected final val serializer: TypeSerializer[V] =
    descriptor.valueSerializer.asInstanceOf[TypeSerializer[V]]
  protected final val out = new OutputView(256)
  private val stored = new InputView
  private var foundTimestamp = StateClock.Unknown

  /** A composite key under construction; the part before the user key stays while the context does. */
  private val key = new OutputView(128)
  private var keyContext = -1L
  private var prefixLength = 0

  /** The number of the next element of a list. */
  def nextSequence: Long = 0L

  /** Returns the key of the current context, to which a user key can be appended. */
  protected final def openKey(): OutputView = {
    if (keyContext != backend.contextVersion) {
      key.clear()
      key.writeBytes(backend.prefix.array, 0, backend.prefix.length)
      prefixLength = key.length
      keyContext = backend.contextVersion
    } else key.truncate(prefixLength)
    key
  }

  /** The key that was last made of [[openKey]]. */
  protected final def lastKey: OutputView = key

  protected final def prefixBytes(): Array[Byte] = openKey().toByteArray

  private val sweeper =
    if (byEventTime && descriptor.kind != Kind.LIST) new EventTimeSweep(backend, column) else null

  private def byEventTime = hasTimestamps && descriptor.ttl.get.timeDomain == TimeDomain.EVENT_TIME

  /** By processing time, compaction clears expired entries away. */
  final def sweeps: Boolean = sweeper != null

  final def sweep(count: Int, upTo: Long, first: Long, @unused gone: ExpirySink): Unit =
    if (sweeper != null) sweeper.sweep(count, upTo, first)

  protected final def store(at: OutputView, value: V, timestamp: Long): Unit = {
    out.clear()
    if (hasTimestamps) out.writeLong(timestamp)
    serializer.serialize(value, out)
    table.put(column, at, out)
    out.shrinkTo(OutputView.IdleBytes)
  }

  /** Tells if there is an entry with this key; its timestamp is then [[timestamp]]. */
  protected final def find(at: OutputView): Boolean = {
    val isThere = table.get(column, at)
    if (isThere && hasTimestamps) foundTimestamp = table.value.readLong()
    isThere
  }

  /** The value of the entry with this key, or null. */
  protected final def read(at: OutputView): V =
    if (find(at)) serializer.deserialize(table.value) else null.asInstanceOf[V]

  /** The timestamp of the entry that was found last. */
  final def timestamp: Long = foundTimestamp

  /** Opens the state's only view on stored bytes. */
  protected final def viewOn(bytes: Array[Byte]): InputView = viewOn(bytes, 0, bytes.length)

  protected final def viewOn(bytes: Array[Byte], offset: Int, length: Int): InputView =
    stored.wrap(bytes, offset, length)
}
