package io.pillarbox.state.rocksdb

import io.pillarbox.state.changelog.RestorePlan
import io.pillarbox.state.serialization.{InputView, OutputView, TypeSerializer}
import io.pillarbox.state.ttl.TtlPolicy
import io.pillarbox.state.{StateClock, StateDescriptor, StateKind}
import org.rocksdb.ColumnFamilyHandle

/** Makes restored entries fit the descriptor under which they are now used. */
private[rocksdb] object ColumnMigration {

  /**
   * Does nothing but let compaction run where bytes and age fit; else moves all entries to a new column family. Entries whose
   * bytes change count as changed, so the next commit tells of them.
   *
   * @throws StateRegistrationException before anything is touched, if the descriptor can't read what was written
   */
  def run(
      store: RocksDBStore,
      entries: EntryStore,
      column: StateColumn,
      descriptor: StateDescriptor[_],
      clock: StateClock,
      ttlSeconds: Int
  ): Unit = {
    val policy = TtlPolicy.of(descriptor.ttl, clock)
    val now = if (policy == null) StateClock.Unknown else policy.now
    val plan = RestorePlan.of[AnyRef, AnyRef](column.meta, descriptor, now)
    if (plan.sameBytes && CompactionTtl.fits(column.name.ttlSeconds, ttlSeconds))
      store.enableCompaction(column.family)
    else {
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
    val batch = new BatchBuilder(store)
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
    val serializer = descriptor.valueSerializer.asInstanceOf[TypeSerializer[AnyRef]]
    val (parts, in) = (new KeyParts, new InputView)
    val (newKey, newValue) = (new OutputView, new OutputView)
    forEach(store, from) { (key, value) =>
      newKey.clear()
      newKey.writeBytes(key)
      in.wrap(value, 0, value.length)
      val isAccessTime = descriptor.kind == StateKind.List && parts.open(key).userKeyLength == 0
      newValue.clear()
      if (!isAccessTime) {
        val stamp = plan.timestamp(in)
        if (descriptor.hasTtl) newValue.writeLong(stamp)
        serializer.serialize(plan.value(in), newValue)
      } else newValue.writeBytes(value)
      if (isAccessTime && !plan.keepsTimestamps) entries.delete(to, newKey)
      else entries.put(to, newKey, newValue)
    }
  }

  private def forEach(store: RocksDBStore, family: ColumnFamilyHandle)(
      action: (Array[Byte], Array[Byte]) => Unit
  ): Unit = {
    var from = Array.emptyByteArray
    var more = true
    while (more) {
      val page = store.scan(family, from, null, 4096)
      for (i <- 0 until page.size) action(page.key(i), page.value(i))
      more = !page.isLast
      if (more) from = EntryStore.after(page.key(page.size - 1))
    }
  }
}
