package io.pillarbox.spark.keyed

import io.pillarbox.queue.RocksDBOrderedByteStore
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.rocksdb.{CacheBudget, RocksDBConfig, RocksDBKeyedStateBackend, RocksDBStore}
import io.pillarbox.state.{KeyGroupRange, KeyedStateBackend}
import io.pillarbox.timer.{TimerKind, TimerQueues}
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.pillarbox.{LocalFolder, LocalFolders, SparkAdapter}
import org.apache.spark.sql.types.{StructField, StructType}

/** Makes empty state of a partition, kept as the spec wants it. */
object StateBackends {

  /** How many key groups state is divided into; on disk, so never to be changed. */
  final val MaxKeyGroups = 128

  /** Spark decides which key is in which partition, so any partition can have keys of any key group. */
  private val AllKeyGroups = KeyGroupRange(0, MaxKeyGroups - 1)

  /** For a batch: one key at a time, nothing is ever committed. */
  def forBatch(keySchema: StructType): PartitionState = new PartitionState(
    clock => new HeapKeyedStateBackend(keySerializer(keySchema), MaxKeyGroups, AllKeyGroups, clock, false),
    _ => TimerQueues.Heap,
    () => (),
    trackChanges = false
  )

  /**
   * For a stream.
   *
   * @param memoryLimit
   *   of all RocksDB databases of the process, in bytes
   */
  def forStream(spec: KeyedSpec, keySchema: StructType, memoryLimit: Long): PartitionState =
    make(spec.backend, spec.timers, keySchema, memoryLimit)

  /** For reading what a stream left, whatever kept it. */
  def forReading(keySchema: StructType, memoryLimit: Long): PartitionState =
    make(StorageKind.RocksDB, StorageKind.RocksDB, keySchema, memoryLimit)

  private def make(
      kind: StorageKind,
      timers: StorageKind,
      keySchema: StructType,
      memoryLimit: Long
  ): PartitionState = {
    val closing = new Closing
    val keys = keySerializer(keySchema)
    try
      new PartitionState(
        clock =>
          kind match {
            case StorageKind.Heap => new HeapKeyedStateBackend(keys, MaxKeyGroups, AllKeyGroups, clock)
            case StorageKind.RocksDB =>
              val config =
                RocksDBConfig(closing.folder().path, memoryLimit, sharedCache = CacheBudget.ofProcess)
              new RocksDBKeyedStateBackend(keys, MaxKeyGroups, AllKeyGroups, clock, config)
          },
        backend => timerQueues(timers, backend, memoryLimit, closing),
        () => closing.run(),
        trackChanges = true
      )
    catch {
      case e: Throwable =>
        closing.run()
        throw e
    }
  }

  /** Of keys by their types alone: names may change from one run of a query to the next, and whether nulls occur. */
  private def keySerializer(keySchema: StructType): UnsafeRowSerializer = {
    val positional = keySchema.zipWithIndex.map { case (key, at) => StructField(s"_${at + 1}", key.dataType) }
    new UnsafeRowSerializer(SparkAdapter.asNullable(StructType(positional)))
  }

  private def timerQueues(
      kind: StorageKind,
      backend: KeyedStateBackend[UnsafeRow],
      memoryLimit: Long,
      closing: Closing
  ): TimerQueues = kind match {
    case StorageKind.Heap => TimerQueues.Heap
    case StorageKind.RocksDB =>
      backend match {
        case rocks: RocksDBKeyedStateBackend[_] => overRocksDB(rocks.store)
        case _ =>
          val own = new RocksDBStore(RocksDBConfig(closing.folder().path, memoryLimit))
          closing.first(own)
          overRocksDB(own)
      }
  }

  private def overRocksDB(store: RocksDBStore): TimerQueues = TimerQueues.overStore { kind =>
    val name = kind match {
      case TimerKind.EventTime => "timers-event"
      case TimerKind.ProcessingTime => "timers-processing"
    }
    new RocksDBOrderedByteStore(
      store.rocksDB,
      store.createColumnFamily(name.getBytes("UTF-8")),
      store.defaultReadOptions,
      store.defaultWriteOptions
    )
  }

  /** What is to be closed after the backend: databases, then folders. */
  private final class Closing {
    private var resources = List.empty[AutoCloseable]

    def folder(): LocalFolder = {
      val folder = LocalFolders.create("rocksdb")
      resources = resources :+ folder
      folder
    }

    def first(resource: AutoCloseable): Unit = resources = resource :: resources

    def run(): Unit = {
      resources.foreach(_.close())
      resources = Nil
    }
  }
}
