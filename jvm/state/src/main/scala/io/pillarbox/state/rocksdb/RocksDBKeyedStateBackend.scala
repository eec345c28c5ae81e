package io.pillarbox.state.rocksdb

import java.io.{InputStream, OutputStream}
import java.nio.file.Path

import scala.collection.mutable

import io.pillarbox.api.{OutputView, State, StateDescriptor, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.changelog._
import io.pillarbox.state.rocksdb.entries.{EntryStore, StateColumn}
import io.pillarbox.state.rocksdb.list.{ListChanges, ListChunk, ListLoader, ListSnapshot}
import io.pillarbox.state.rocksdb.store._
import io.pillarbox.state.ttl.TtlStates

/**
 * Keeps state as bytes in RocksDB, for state larger than memory, behind a write-back cache on the heap: a key
 * that is read, changed and changed again costs one write to RocksDB, later, in a batch; a commit takes the
 * changes from the cache.
 *
 * The directory must be empty, or a copy that [[checkpoint]] made; one that a crash left behind is refused,
 * since nothing in it can be trusted.
 */
private[pillarbox] final class RocksDBKeyedStateBackend[K](
    keySerializer: TypeSerializer[K],
    clock: StateClock,
    config: RocksDBConfig
) extends KeyedStateBackend[K](keySerializer, clock) {

  /** The database, for structures that keep further column families in it. */
  val store: RocksDBStore = new RocksDBStore(config)
  private[rocksdb] val entries = new EntryStore(store, config)
  private val watch = new CompactionWatch(store, config.clockBehind, config.compactionMargin / 2)
  private val columns = mutable.LinkedHashMap.empty[String, StateColumn]
  private val states = mutable.LinkedHashMap.empty[String, RocksDBState[K, _]]
  private val prefixView = new OutputView(128)
  private var prefixContext = -1L

  try DirectoryHeader.take(store).foreach(adopt)
  catch {
    case e: Throwable =>
      entries.close()
      store.close()
      throw e
  }

  /** The bytes of key and namespace of the context. */
  private[rocksdb] def prefix: OutputView = {
    if (prefixContext != contextVersion) {
      prefixView.clear()
      CompositeKey.writePrefix(prefixView, currentKey, keySerializer, namespace.bytes)
      prefixContext = contextVersion
    }
    prefixView
  }

  override protected def judged(raw: Timestamped): State = TtlStates.over(raw, this)

  override protected def createState(descriptor: StateDescriptor[_]): Timestamped = {
    val restored = columns.get(descriptor.name)
    val ttlSeconds = CompactionTtl.seconds(descriptor, config.compactionMargin)
    val column = restored match {
      case Some(column) =>
        ColumnMigration.run(this, column, descriptor, ttlSeconds)
        column
      case None =>
        addColumn(ColumnName(descriptor.name, 0, ttlSeconds), descriptor.kind, compacts = true)
    }
    column.meta = StateMeta.of(column.id, descriptor, restored.fold(0L)(_.meta.nextSequence))
    val state = make(descriptor, column)
    states(descriptor.name) = state
    state
  }

  private def addColumn(name: ColumnName, kind: StateDescriptor.Kind, compacts: Boolean): StateColumn = {
    val column = entries.newColumn(isPacked = kind == StateDescriptor.Kind.LIST)
    column.use(store.createColumnFamily(name.toBytes, name.ttlSeconds, compacts), name)
    columns(name.state) = column
    column
  }

  private def make(descriptor: StateDescriptor[_], column: StateColumn): RocksDBState[K, _] with Timestamped =
    descriptor.kind match {
      case StateDescriptor.Kind.LIST =>
        new RocksDBListState[K, AnyRef](this, descriptor, column, column.meta.nextSequence)
      case StateDescriptor.Kind.MAP => new RocksDBMapState[K, AnyRef, AnyRef](this, descriptor, column)
      case _ => new RocksDBValueState[K, AnyRef](this, descriptor, column)
    }

  override def unclaimedStates: Seq[String] = columns.keys.filterNot(states.contains).toSeq

  override def commit(out: OutputStream): CommitSummary = {
    checkThread()
    store.hidden.check()
    val writer = new StateStreamWriter(out, header(isSnapshot = false, currentVersion + 1))
    val lists = new ListChanges(writer)
    var last: StateColumn = null
    entries.dirty.forEachChange { (column, change) =>
      if (column ne last) {
        if (last != null) lists.endChunks(last)
        writer.beginState(column.streamId)
        last = column
      }
      if (column.isPacked) lists.writeChunk(column, change)
      else if (column.isKept) lists.write(change)
      else lists.writeLogged(change)
    }
    if (last != null) lists.endChunks(last)
    val summary = writer.finish()
    entries.dirty.forgetChanges()
    entries.publishCounters()
    states.values.foreach(state => state.column.committedBelow = state.nextSequence)
    currentVersion += 1
    summary
  }

  override def snapshot(out: OutputStream): CommitSummary = {
    checkThread()
    store.hidden.finish()
    val writer = new StateStreamWriter(out, header(isSnapshot = true, currentVersion))
    columns.values.foreach { column =>
      writer.beginState(column.id)
      val lists = new ListSnapshot(writer)
      val scan = entries.scan(column, Array.emptyByteArray, 4096)
      while (scan.next())
        if (column.isPacked) lists.write(scan.key, scan.value)
        else writer.record(scan.key, 0, scan.key.length, scan.value, 0, scan.value.length)
      lists.finish()
    }
    writer.finish()
  }

  /** The bytes in the cache over the database, as of the last commit. Any thread. */
  def cacheUsed: Long = entries.cacheUsed

  /**
   * Writes what the cache holds to the database's files, so that less is left for the next [[checkpoint]].
   */
  def writeCache(): Unit = {
    checkThread()
    entries.dirty.write()
    store.flush(waits = false)
  }

  /**
   * Copies the database by hard links; a new backend can be opened on the copy without reading it.
   *
   * @param target must not exist yet
   */
  def checkpoint(target: Path): Unit = {
    checkThread()
    store.hidden.finish()
    entries.dirty.write()
    store.checkpoint(target)
    DirectoryHeader.write(target, header(isSnapshot = true, currentVersion))
  }

  private def header(isSnapshot: Boolean, version: Long): StreamHeader = {
    val metas = columns.values.map { column =>
      val sequence = states.get(column.name.state).fold(column.meta.nextSequence)(_.nextSequence)
      column.meta.copy(id = column.id, nextSequence = sequence)
    }
    StreamHeader(isSnapshot, version, keySerializer.snapshot, metas.toSeq, firstWatermark)
  }

  override protected def doRestore(in: InputStream, source: String, keeps: K => Boolean): Unit = {
    val keys = RecordKeys.of(keySerializer, keeps)
    var targets = Map.empty[Int, StateColumn]
    val lists = mutable.Map.empty[StateColumn, ListLoader]
    var restored = 0L
    new StateStreamReader(in, source).read { header =>
      currentVersion = header.versionIn(this, source, columns.isEmpty)
      restoreFirstWatermark(header.firstWatermark)
      targets = header.states.map(meta => meta.id -> columnFor(meta)).toMap
    } { block =>
      targets.get(block.state).foreach { column =>
        val list =
          if (!column.isPacked) null else lists.getOrElseUpdate(column, new ListLoader(entries, column))
        restored += load(column, list, block, keys)
      }
    }
    store.batch.write()
    lists.keys.foreach(_.isLogged = true)
    entries.assumeLive(entries.live + restored)
  }

  /**
   * Copies the entries of another backend's database, in the place of [[restore]] from its snapshot.
   *
   * @param keeps true for the keys whose entries are taken; null for all
   */
  def restoreFrom(other: RocksDBKeyedStateBackend[K], keeps: K => Boolean): Unit = {
    checkThread()
    val keys = RecordKeys.of(keySerializer, keeps)
    currentVersion = other.version
    restoreFirstWatermark(other.firstWatermark)
    val counts = other.columns.values.map { from =>
      copy(other.store, from, columnFor(from.meta, from.name.ttlSeconds), keys)
    }
    entries.assumeLive(entries.live + counts.sum)
  }

  /** Returns the number of copied values, elements or entries. */
  private def copy(from: RocksDBStore, column: StateColumn, to: StateColumn, keys: RecordKeys[K]): Long = {
    val found = from.cursor(column.family, Array.emptyByteArray, null)
    val elementsOf = counterOf(column)
    var count = 0L
    try
      store.addSorted(to.family) { file =>
        while (found.advance()) {
          val key = found.key
          if (keys == null || keys.keeps(key, 0, key.length)) {
            val value = found.value
            file.put(key, value)
            count += elementsOf(value)
          }
        }
      }
    finally found.close()
    count
  }

  /** Returns a function that says how many values, elements or entries are in one entry of the database. */
  private def counterOf(column: StateColumn): Array[Byte] => Int =
    if (!column.isPacked) _ => 1
    else {
      val chunk = new ListChunk
      value => chunk.open(value).countRest()
    }

  /**
   * Goes on with a part of the keys alone. The entries of others are hidden, and deleted by the database's
   * sweep. After the backend was opened on a checkpoint, and before anything else.
   */
  def keepOnly(part: KeyPart[K]): Unit = {
    columns.values.foreach { column =>
      val keys = RecordKeys.of[K](keySerializer, key => part.isMineInSweep(key))
      store.hidden.in(column.family, key => keys.keeps(key, 0, key.length), counterOf(column))
    }
    val mine = (part.share * part.entries).round
    entries.assumeLive(mine)
    store.hidden.expect(part.entries - mine)
  }

  override def entryCount: Long = {
    checkThread()
    val surplus = store.hidden.surplus()
    if (surplus == 0L) entries.publishCounters() else entries.assumeLive(entries.total - surplus)
    entries.live
  }

  override def assumeEntries(count: Long): Unit = {
    entries.assumeLive(count)
    store.hidden.expect(0L)
  }

  private def columnFor(meta: StateMeta): StateColumn =
    columnFor(meta, CompactionTtl.seconds(meta, config.compactionMargin))

  private def columnFor(meta: StateMeta, ttlSeconds: Int): StateColumn = {
    val column =
      columns.getOrElse(
        meta.name,
        addColumn(ColumnName(meta.name, 0, ttlSeconds), meta.kind, compacts = false)
      )
    val sequence = if (column.meta == null) 0L else column.meta.nextSequence
    column.meta = meta.copy(nextSequence = math.max(meta.nextSequence, sequence))
    column.isStored = true
    column
  }

  /** Loads a block; returns the number of puts less that of deletes. */
  private def load(column: StateColumn, list: ListLoader, block: RecordBlock, keys: RecordKeys[K]): Long = {
    val c = block.cursor
    var count = 0L
    while (c.next())
      if (keys == null || keys.keeps(c)) {
        count += (if (c.isPut) 1 else -1)
        if (list != null) list.load(c) else load(column.familyNumber, c)
      }
    count
  }

  private def load(family: Int, c: RecordCursor): Unit =
    if (!c.isPut) store.batch.delete(family, c.array, c.keyOffset, c.keyLength)
    else
      store.batch.put(family, c.array, c.keyOffset, c.keyLength, c.array, c.valueOffset, c.valueLength)

  /** Takes over the column families of a checkpoint. */
  private def adopt(header: StreamHeader): Unit = {
    currentVersion = header.versionIn(this, s"The checkpoint in ${config.directory}", nothingRead = true)
    restoreFirstWatermark(header.firstWatermark)
    val families = store.columnFamilies.flatMap(family =>
      ColumnName.parse(family.getName).map(name => name.state -> ((family, name)))
    )
    header.states.foreach { meta =>
      val column = entries.newColumn(isPacked = meta.kind == StateDescriptor.Kind.LIST)
      val (family, name) = families
        .collect { case (state, found) if state == meta.name => found }
        .maxBy(_._2.generation)
      column.use(family, name)
      column.isStored = true
      column.meta = meta
      columns(meta.name) = column
    }
  }

  override def timeIs(processingTime: Long): Unit = watch.timeIs(processingTime)

  override def metrics: StateMetrics = StateMetrics(
    entries.live,
    store.property("rocksdb.live-sst-files-size"),
    entries.cacheUsed + store.property("rocksdb.cur-size-all-mem-tables")
  )

  override def close(): Unit = if (!isClosed) {
    isClosed = true
    clearCurrentKey()
    watch.close()
    entries.close()
    store.close()
  }
}
