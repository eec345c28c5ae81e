package io.pillarbox.bench

import io.pillarbox.state.rocksdb.store.{RocksDBConfig, RocksDBStore}
import io.pillarbox.api.{ScalaSerializers, TimeDomain}
import java.nio.file.{Files, Path}

import io.pillarbox.queue._
import io.pillarbox.state.Namespace
import io.pillarbox.timer.{Timer, TimerQueues, TimerType}
import org.rocksdb.{BlockBasedTableConfig, LRUCache, Options, ReadOptions, RocksDB, WriteOptions}

/** A queue of timers with a `Long` as key, without namespace. */
trait TimerQueue extends AutoCloseable {
  def add(key: Long, timestamp: Long): Boolean

  def remove(key: Long, timestamp: Long): Boolean

  /** Takes out the first timer and adds it again `delta` later. */
  def pollAndAdd(delta: Long): Boolean

  /** Takes out all; how many there were. */
  def drain(): Int
}

object TimerQueue {
  final val KeyGroups = 128

  /**
   * @param of
   *   flink or pillarbox
   * @param kind
   *   heap (as the heap backend makes it) or rocksdb
   */
  def of(of: String, kind: String): TimerQueue = (of, kind) match {
    case ("flink", "heap") => FlinkTimerQueue.onHeap()
    case ("flink", "rocksdb") => FlinkTimerQueue.onRocksDB(new BenchDatabase)
    case (_, "heap") => new Ours(TimerQueues.Heap, () => ())
    case _ =>
      val folder = Files.createTempDirectory("pillarbox-bench")
      val database = new RocksDBStore(RocksDBConfig(folder))
      new Ours(
        TimerQueues.inDatabase(database),
        () => {
          database.close()
          KeyedStore.deleteAll(folder)
        }
      )
  }

  private final class Ours(queues: TimerQueues, whenClosed: () => Unit) extends TimerQueue {
    private val timerType = new TimerType(TimeDomain.EVENT_TIME, ScalaSerializers.long)
    private val queue: InternalPriorityQueue[Timer[Long]] = queues.newQueue(timerType)

    override def add(key: Long, timestamp: Long): Boolean =
      queue.add(timerType.newTimer(key, Namespace.Void, timestamp))

    override def remove(key: Long, timestamp: Long): Boolean =
      queue.remove(timerType.newTimer(key, Namespace.Void, timestamp))

    override def pollAndAdd(delta: Long): Boolean = {
      val timer = queue.poll()
      queue.add(timerType.newTimer(timer.key, timer.namespace, timer.timestamp + delta))
    }

    override def drain(): Int = {
      var count = 0
      while (queue.poll() != null) count += 1
      count
    }

    override def close(): Unit = whenClosed()
  }
}

/** A RocksDB in a temporary folder for Flink's queue, with as much memory as ours has. */
final class BenchDatabase extends AutoCloseable {
  RocksDB.loadLibrary()
  private val folder: Path = Files.createTempDirectory("pillarbox-bench")
  private val cache = new LRUCache(RocksDBConfig(folder).memoryLimit)
  private val options = new Options()
    .setCreateIfMissing(true)
    .setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(cache))
  val readOptions = new ReadOptions()
  val writeOptions: WriteOptions = new WriteOptions().setDisableWAL(true)
  val db: RocksDB = RocksDB.open(options, folder.toString)

  override def close(): Unit = {
    Seq[AutoCloseable](db, readOptions, writeOptions, options, cache).foreach(_.close())
    KeyedStore.deleteAll(folder)
  }
}
