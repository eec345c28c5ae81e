package io.pillarbox.state.rocksdb

import io.pillarbox.state.serialization.{Bytes, InputView}
import io.pillarbox.state.ttl.TtlPolicy
import io.pillarbox.state.{StateClock, StateDescriptor, StateKind}

/** Leaves expired entries out of a full snapshot, if the state's TTL asks for it. Sees entries in the order of their keys. */
private[rocksdb] final class SnapshotFilter(descriptor: Option[StateDescriptor[_]], clock: StateClock) {
  private[this] val policy = TtlPolicy.of(descriptor.flatMap(_.ttl).filter(_.cleanup.inFullSnapshot), clock)
  private[this] val limit = if (policy == null) StateClock.Unknown else policy.limit(policy.now)
  private[this] val isList = descriptor.exists(_.kind == StateKind.List)
  private[this] val parts = new KeyParts
  private[this] val in = new InputView
  private[this] var access = ListAccess.Never
  private[this] var listKey: Array[Byte] = Array.emptyByteArray

  def keeps(key: Array[Byte], value: Array[Byte]): Boolean = policy == null || {
    val timestamp = in.wrap(value, 0, value.length).readLong()
    if (isList && parts.open(key).userKeyLength == 0) {
      access = ListAccess(timestamp, in.readLong())
      listKey = key
      true
    } else !policy.isExpired(accessOf(key).timestamp(numberOf(key), timestamp), limit)
  }

  private[this] def numberOf(key: Array[Byte]): Long =
    if (isList) Bytes.getLong(key, key.length - java.lang.Long.BYTES) else 0L

  /** The access time of a list comes right before its elements. */
  private[this] def accessOf(key: Array[Byte]): ListAccess =
    if (isList && listKey.length == key.length - java.lang.Long.BYTES && key.startsWith(listKey)) access
    else ListAccess.Never
}
