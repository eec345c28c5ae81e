package io.pillarbox.state.rocksdb

import io.pillarbox.api.{InputView, OutputView, StateDescriptor, TypeSerializer}
import io.pillarbox.state.changelog.{KeyParts, RestorePlan}
import io.pillarbox.state.rocksdb.entries.{EntryStore, StateColumn}
import io.pillarbox.state.rocksdb.list.{ListAccess, ListChunk, ListChunkBuilder}
import io.pillarbox.state.rocksdb.store.{CompactionTtl, RocksDBStore}
import io.pillarbox.state.ttl.TtlPolicy
import org.rocksdb.ColumnFamilyHandle

/** Makes restored entries fit the descriptor under which they are now used. */
private[rocksdb] object ColumnMigration {

  /**
   * Lets compaction run where bytes and age fit; else moves all entries to a new column family. Entries whose
   * bytes change count as changed, so they are in the next commit.
   *
   * @throws StateRegistrationException before anything is touched, if the descriptor can't read the entries
   */
  def run(
      backend: RocksDBKeyedStateBackend[_],
      column: StateColumn,
      descriptor: StateDescriptor[_],
      ttlSeconds: Int
  ): Unit = {
    val (store, entries) = (backend.store, backend.entries)
    val now = TtlPolicy.now(descriptor, backend)
    val plan = RestorePlan.of[AnyRef, AnyRef](column.meta, descriptor, now)
    if (plan.sameBytes && CompactionTtl.fits(column.name.ttlSeconds, ttlSeconds))
      store.enableCompaction(column.family)
    else {
      store.hidden.finish()
      entries.dirty.write()
      val old = column.family
      val name = column.name.copy(generation = column.name.generation + 1, ttlSeconds = ttlSeconds)
      column.use(store.createColumnFamily(name.toBytes, ttlSeconds), name)
      val before = entries.live
      if (plan.sameBytes) copy(store, old, column)
      else {
        rewrite(store, entries, old, column, descriptor, plan)
        entries.assumeLive(before)
      }
      store.dropColumnFamily(old)
    }
  }

  private def copy(store: RocksDBStore, from: ColumnFamilyHandle, to: StateColumn): Unit = {
    val batch = store.batch
    forEach(store, from) { (key, value) =>
      batch.put(to.familyNumber, key, 0, key.length, value, 0, value.length)
    }
    batch.write()
  }

  private def rewrite(
      store: RocksDBStore,
      entries: EntryStore,
      from: ColumnFamilyHandle,
      to: StateColumn,
      descriptor: StateDescriptor[_],
      plan: RestorePlan[AnyRef, AnyRef]
  ): Unit = {
    val newKey = new OutputView
    if (descriptor.kind == StateDescriptor.Kind.LIST) {
      val lists = new ListRewriter(entries, to, descriptor, plan)
      forEach(store, from)(lists.rewrite(_, _))
    } else {
      val values = new ValueRewriter(descriptor, plan)
      forEach(store, from) { (key, value) =>
        newKey.clear()
        newKey.writeBytes(key)
        entries.put(to, newKey, values.rewritten(value, 0, value.length))
      }
    }
  }

  private def forEach(store: RocksDBStore, family: ColumnFamilyHandle)(
      action: (Array[Byte], Array[Byte]) => Unit
  ): Unit = {
    val found = store.cursor(family, Array.emptyByteArray, null)
    try while (found.advance()) action(found.key, found.value)
    finally found.close()
  }
}

private final class ValueRewriter(descriptor: StateDescriptor[_], plan: RestorePlan[AnyRef, AnyRef]) {
  private val serializer = descriptor.valueSerializer.asInstanceOf[TypeSerializer[AnyRef]]
  private val in = new InputView
  private val out = new OutputView

  /** Returns the new bytes, valid until the next call. */
  def rewritten(value: Array[Byte], offset: Int, length: Int): OutputView = {
    in.wrap(value, offset, length)
    out.clear()
    val timestamp = plan.timestamp(in)
    if (descriptor.ttl.isPresent) out.writeLong(timestamp)
    serializer.serialize(plan.value(in), out)
    out
  }
}

/** Rewrites the elements of lists for the descriptor. */
private final class ListRewriter(
    entries: EntryStore,
    to: StateColumn,
    descriptor: StateDescriptor[_],
    plan: RestorePlan[AnyRef, AnyRef]
) {
  private val values = new ValueRewriter(descriptor, plan)
  private val builder = new ListChunkBuilder
  private val parts = new KeyParts
  private val newKey = new OutputView

  def rewrite(key: Array[Byte], value: Array[Byte]): Unit = {
    val prefix = parts.open(key, 0, key.length).prefixLength
    val chunk = new ListChunk().open(value)
    val keepsAccess = plan.keepsTimestamps || (chunk.access eq ListAccess.Never)
    builder.begin(chunk.isSplit, if (keepsAccess) chunk.access else ListAccess.Never)
    while (chunk.next()) {
      val element = values.rewritten(chunk.array, chunk.valueOffset, chunk.valueLength)
      builder.add(chunk.number, element.array, 0, element.length)
      setKey(key, prefix)
      newKey.writeLong(chunk.number)
      entries.logPut(to, newKey, element)
    }
    setKey(key, prefix)
    if (!keepsAccess) entries.logRemoved(to, newKey)
    setKey(key, key.length)
    entries.put(to, newKey, builder.finish())
  }

  private def setKey(key: Array[Byte], length: Int): Unit = {
    newKey.clear()
    newKey.writeBytes(key, 0, length)
  }
}
