package io.pillarbox.timer

import io.pillarbox.queue._
import io.pillarbox.state.KeyGroupRange

/** Makes the queues that timers wait in. All order timers alike; they differ in where they keep them. */
trait TimerQueues {
  def newQueue[K](timerType: TimerType[K], range: KeyGroupRange): KeyGroupedInternalPriorityQueue[Timer[K]]

  /** Whether the timers of one key are better found by an index in memory than by reading its key group. */
  private[timer] def isInMemory: Boolean
}

object TimerQueues {

  /** On the heap: fastest, for as many timers as fit there (about 80 bytes a timer and its key). */
  object Heap extends TimerQueues {
    override def newQueue[K](
        timerType: TimerType[K],
        range: KeyGroupRange
    ): KeyGroupedInternalPriorityQueue[Timer[K]] =
      new HeapPriorityQueueSet[Timer[K]](range, _.keyGroup, new TimerOrder(timerType))

    override private[timer] def isInMemory: Boolean = true
  }

  /**
   * Over an ordered byte store, such as a column family of RocksDB, one for each kind of timer.
   *
   * @param storeFor
   *   called once a kind
   * @param cacheCapacity
   *   how many timers a key group keeps in memory
   */
  def overStore(
      storeFor: TimerKind => OrderedByteStore,
      cacheCapacity: Int = RocksDBCachingPriorityQueueSet.DefaultCacheCapacity
  ): TimerQueues = new TimerQueues {
    override def newQueue[K](
        timerType: TimerType[K],
        range: KeyGroupRange
    ): KeyGroupedInternalPriorityQueue[Timer[K]] = {
      val store = storeFor(timerType.kind)
      val serializer = new TimerSerializer(timerType)
      val width = OrderPreserving.keyGroupWidth(timerType.maxKeyGroups)
      new KeyGroupPartitionedPriorityQueue[Timer[K]](
        range,
        _.keyGroup,
        keyGroup => new RocksDBCachingPriorityQueueSet(keyGroup, width, serializer, store, cacheCapacity)
      )
    }

    override private[timer] def isInMemory: Boolean = false
  }
}
