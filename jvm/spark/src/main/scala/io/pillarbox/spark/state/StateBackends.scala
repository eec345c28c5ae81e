package io.pillarbox.spark.state

import io.pillarbox.api.TypeSerializer
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.rocksdb.RocksDBKeyedStateBackend
import io.pillarbox.state.rocksdb.cache.CacheBudget
import io.pillarbox.state.rocksdb.store.{RocksDBConfig, RocksDBMemory, RocksDBStore}
import io.pillarbox.state.{KeyPart, KeyedStateBackend}
import io.pillarbox.timer.TimerQueues
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.pillarbox.{LocalFolder, LocalFolders, SparkAdapter}
import org.apache.spark.sql.types.{StructField, StructType}

/** Makes empty state of a partition, kept in an executor. */
private[pillarbox] object StateBackends {

  /** The part of the cache on the heap that a partition has in any case: an executor may have hundreds. */
  private final val OwnCacheBytes = 64 << 10

  /** Makes state for a batch: one key at a time, and nothing is ever committed. */
  def forBatch(keySchema: StructType): PartitionState = new PartitionState(
    clock =>
      new HeapKeyedStateBackend(keySerializer(keySchema), clock, tracksChanges = false, sweeps = false),
    _ => TimerQueues.Heap,
    () => (),
    trackChanges = false
  )

  /**
   * Makes state for a stream.
   *
   * @param memoryLimit the limit of all RocksDB databases of the process, in bytes
   * @param from a database to go on with; see [[canAdopt]]
   * @param clockBehind the time by which the batch's clock is behind the machine's, in milliseconds
   */
  def forStream(
      storage: StateStorage,
      keySchema: StructType,
      memoryLimit: Long,
      from: Option[LocalDatabase] = None,
      clockBehind: Long = 0L
  ): PartitionState =
    make(storage.state, storage.timers, keySerializer(keySchema), memoryLimit, from, clockBehind)

  /** Makes state to read what a stream has left, whatever kept it; on its database, if it has left one. */
  def forReading(
      keySchema: StructType,
      memoryLimit: Long,
      from: Option[LocalDatabase] = None
  ): PartitionState = {
    val timers = if (from.exists(!_.timersInside)) StorageKind.Heap else StorageKind.RocksDB
    make(StorageKind.RocksDB, timers, keySerializer(keySchema), memoryLimit, from)
  }

  /** True if state is kept as in this database. */
  def canAdopt(storage: StateStorage, database: LocalDatabase): Boolean =
    storage.state == StorageKind.RocksDB && (storage.timers == StorageKind.RocksDB) == database.timersInside

  /** Makes state on a database, to read its content. */
  def overDatabase(keys: TypeSerializer[UnsafeRow], database: LocalDatabase): PartitionState = {
    val timers = if (database.timersInside) StorageKind.RocksDB else StorageKind.Heap
    make(StorageKind.RocksDB, timers, keys, RocksDBMemory.default, Some(database))
  }

  private def make(
      kind: StorageKind,
      timers: StorageKind,
      keys: TypeSerializer[UnsafeRow],
      memoryLimit: Long,
      from: Option[LocalDatabase],
      clockBehind: Long = 0L
  ): PartitionState = {
    val closing = new Closing
    try
      new PartitionState(
        clock =>
          kind match {
            case StorageKind.Heap => new HeapKeyedStateBackend(keys, clock)
            case StorageKind.RocksDB =>
              val folder = from.fold(closing.folder())(database => closing.own(database.folder))
              val config = RocksDBConfig(
                folder.path,
                memoryLimit,
                cacheBytes = OwnCacheBytes,
                sharedCache = CacheBudget.ofProcess,
                clockBehind = clockBehind
              )
              val backend = new RocksDBKeyedStateBackend(keys, clock, config)
              from.flatMap(_.part).foreach(backend.keepOnly)
              backend
          },
        backend => timerQueues(timers, backend, memoryLimit, closing, from.flatMap(_.part)),
        () => closing.run(),
        trackChanges = true,
        timersInDatabase = kind == StorageKind.RocksDB && timers == StorageKind.RocksDB
      )
    catch {
      case e: Throwable =>
        closing.run()
        throw e
    }
  }

  /** Makes the serializer from the keys' types alone: names and nullability may change between two runs. */
  private def keySerializer(keySchema: StructType): UnsafeRowSerializer = {
    val positional = keySchema.zipWithIndex.map { case (key, at) => StructField(s"_${at + 1}", key.dataType) }
    new UnsafeRowSerializer(SparkAdapter.asNullable(StructType(positional)))
  }

  private def timerQueues(
      kind: StorageKind,
      backend: KeyedStateBackend[UnsafeRow],
      memoryLimit: Long,
      closing: Closing,
      part: Option[KeyPart[UnsafeRow]]
  ): TimerQueues = kind match {
    case StorageKind.Heap => TimerQueues.Heap
    case StorageKind.RocksDB =>
      backend match {
        case rocks: RocksDBKeyedStateBackend[_] =>
          TimerQueues.inDatabase(rocks.store, shared = CacheBudget.ofProcess, part = part)
        case _ =>
          val own = new RocksDBStore(RocksDBConfig(closing.folder().path, memoryLimit))
          closing.first(own)
          TimerQueues.inDatabase(own, shared = CacheBudget.ofProcess)
      }
  }

  /** The resources to close after the backend: databases, then folders. */
  private final class Closing {
    private var resources = List.empty[AutoCloseable]

    def folder(): LocalFolder = own(LocalFolders.create("rocksdb"))

    def own(folder: LocalFolder): LocalFolder = {
      resources = resources :+ folder
      folder
    }

    def first(resource: AutoCloseable): Unit = resources = resource :: resources

    /** Closes all of them, even if one fails. */
    def run(): Unit = while (resources.nonEmpty) {
      val first = resources.head
      resources = resources.tail
      try first.close()
      catch {
        case e: Throwable =>
          run()
          throw e
      }
    }
  }
}
