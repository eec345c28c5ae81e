package io.pillarbox.bench

import java.lang.{Long => JLong}

import org.apache.flink.api.common.typeutils.TypeSerializer
import org.apache.flink.api.common.typeutils.base.LongSerializer
import org.apache.flink.core.memory.{DataInputDeserializer, DataOutputSerializer}
import org.apache.flink.runtime.state.heap.{
  HeapPriorityQueueElement,
  HeapPriorityQueueSet,
  KeyGroupPartitionedPriorityQueue
}
import org.apache.flink.runtime.state.{
  InternalPriorityQueue,
  KeyExtractorFunction,
  KeyGroupRange,
  PriorityComparator,
  VoidNamespace,
  VoidNamespaceSerializer
}
import org.apache.flink.state.rocksdb.RocksDBWriteBatchWrapper
import org.apache.flink.streaming.api.operators.{TimerHeapInternalTimer, TimerSerializer}

/** Flink's timer queues, put together as its backends do. */
object FlinkTimerQueue {
  private type FlinkTimer = TimerHeapInternalTimer[JLong, VoidNamespace]

  private val range = KeyGroupRange.of(0, TimerQueue.KeyGroups - 1)
  private val WriteBatchBytes = 2L * 1024 * 1024
  private val CacheSize = 128

  def onHeap(): TimerQueue = new OfFlink(
    new HeapPriorityQueueSet[FlinkTimer](
      PriorityComparator.forPriorityComparableObjects[FlinkTimer](),
      KeyExtractorFunction.forKeyedObjects[FlinkTimer](),
      128,
      range,
      TimerQueue.KeyGroups
    ),
    () => ()
  )

  def onRocksDB(database: BenchDatabase): TimerQueue = {
    val batch = new RocksDBWriteBatchWrapper(database.db, database.writeOptions, WriteBatchBytes)
    val subQueues = new RocksDBSubQueues(database, batch)
    val queue = new KeyGroupPartitionedPriorityQueue[FlinkTimer, SubQueue](
      KeyExtractorFunction.forKeyedObjects[FlinkTimer](),
      PriorityComparator.forPriorityComparableObjects[FlinkTimer](),
      (group: Int, _: Int, _: KeyExtractorFunction[FlinkTimer], _: PriorityComparator[FlinkTimer]) =>
        subQueues.create(group),
      range,
      TimerQueue.KeyGroups
    )
    new OfFlink(
      queue,
      () => {
        batch.close()
        database.close()
      }
    )
  }

  private type SubQueue = InternalPriorityQueue[FlinkTimer] with HeapPriorityQueueElement

  /** Its constructor is not public. */
  private final class RocksDBSubQueues(database: BenchDatabase, batch: RocksDBWriteBatchWrapper) {
    private val loader = classOf[RocksDBWriteBatchWrapper].getClassLoader
    private val queueClass = loader.loadClass("org.apache.flink.state.rocksdb.RocksDBCachingPriorityQueueSet")
    private val cacheClass = loader.loadClass("org.apache.flink.state.rocksdb.TreeOrderedSetCache")
    private val newQueue = queueClass.getDeclaredConstructors.head
    private val newCache = cacheClass.getDeclaredConstructors.head
    Seq(newQueue, newCache).foreach(_.setAccessible(true))

    private val serializer: TypeSerializer[FlinkTimer] =
      new TimerSerializer[JLong, VoidNamespace](LongSerializer.INSTANCE, VoidNamespaceSerializer.INSTANCE)
    private val output = new DataOutputSerializer(128)
    private val input = new DataInputDeserializer()

    def create(group: Int): SubQueue = newQueue
      .newInstance(
        Int.box(group),
        Int.box(1),
        database.db,
        database.readOptions,
        database.db.getDefaultColumnFamily,
        serializer,
        output,
        input,
        batch,
        newCache.newInstance(Int.box(CacheSize))
      )
      .asInstanceOf[SubQueue]
  }

  private final class OfFlink(queue: InternalPriorityQueue[FlinkTimer], whenClosed: () => Unit)
      extends TimerQueue {

    private def timer(key: JLong, timestamp: Long): FlinkTimer =
      new TimerHeapInternalTimer(timestamp, key, VoidNamespace.INSTANCE)

    override def add(key: Long, timestamp: Long): Boolean = queue.add(timer(key, timestamp))

    override def remove(key: Long, timestamp: Long): Boolean = queue.remove(timer(key, timestamp))

    override def pollAndAdd(delta: Long): Boolean = {
      val first = queue.poll()
      queue.add(timer(first.getKey, first.getTimestamp + delta))
    }

    override def drain(): Int = {
      var count = 0
      while (queue.poll() != null) count += 1
      count
    }

    override def close(): Unit = whenClosed()
  }
}
