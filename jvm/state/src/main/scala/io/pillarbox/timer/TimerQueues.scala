package io.pillarbox.timer

import io.pillarbox.api.{InputView, TimeDomain}
import io.pillarbox.queue._
import io.pillarbox.state.KeyPart
import io.pillarbox.state.rocksdb.cache.CacheBudget
import io.pillarbox.state.rocksdb.store.RocksDBStore

/** Makes the queues that timers wait in. All order timers alike; they differ in where they keep them. */
private[pillarbox] trait TimerQueues {
  def newQueue[K](timerType: TimerType[K]): InternalPriorityQueue[Timer[K]]

  /** Makes the store of the changes for the next commit. */
  private[timer] def newChanges[K](timerType: TimerType[K]): TimerChanges[K] = new HeapTimerChanges(timerType)
}

private[pillarbox] object TimerQueues {

  /** Keeps timers on the heap: fastest, for as many as fit there (about 80 bytes a timer and its key). */
  object Heap extends TimerQueues {
    override def newQueue[K](timerType: TimerType[K]): InternalPriorityQueue[Timer[K]] =
      new HeapElementSet[Timer[K]](new TimerOrder(timerType))
  }

  /**
   * Keeps timers in a database, a column family for each kind, which it may have already; its directory also
   * takes the changes that are too many for memory.
   *
   * @param cacheCapacity the number of timers that a key group keeps in memory
   * @param writeBytes the bytes of writes that may wait for the database, for each kind
   * @param changeBytes the bytes of changes that may wait for a commit in memory, for each kind
   * @param shared the budget for what these take beyond 64 KiB each
   * @param part the keys whose timers are in the queue; others that are in the database are deleted from it.
   *   None for all
   */
  def inDatabase(
      database: RocksDBStore,
      cacheCapacity: Int = RocksDBCachingPriorityQueueSet.DefaultCacheCapacity,
      writeBytes: Int = RocksDBOrderedByteStore.DefaultLimitBytes,
      changeBytes: Int = StoredTimerChanges.DefaultLimitBytes,
      shared: CacheBudget = CacheBudget.Unlimited,
      part: Option[KeyPart[_]] = None
  ): TimerQueues = {
    def storeOf(timers: TimerType[_]) = {
      val family = database.columnFamily(nameOf(timers.kind))
      part.foreach(part => database.hidden.in(family, testOf(timers, part)(_.isMineInSweep), _ => 0))
      val isMine = part.map(testOf(timers, _)(_.isMine))
      new RocksDBOrderedByteStore(database, family, writeBytes, isMine.orNull, shared)
    }
    new OverStores(storeOf, cacheCapacity) {
      override private[timer] def newChanges[K](timerType: TimerType[K]): TimerChanges[K] =
        new StoredTimerChanges(timerType, database, nameOf(timerType.kind), changeBytes, shared)
    }
  }

  /** Keeps timers in ordered byte stores, one for each kind; `storeFor` is called once a kind. */
  private[pillarbox] class OverStores(storeFor: TimerType[_] => OrderedByteStore, cacheCapacity: Int)
      extends TimerQueues {
    override def newQueue[K](timerType: TimerType[K]): InternalPriorityQueue[Timer[K]] = {
      val store = storeFor(timerType)
      val serializer = new TimerSerializer(timerType)
      new KeyGroupPartitionedPriorityQueue[Timer[K]](
        KeyGroupRange(0, TimerType.KeyGroups - 1),
        _.keyGroup,
        keyGroup => new RocksDBCachingPriorityQueueSet(keyGroup, serializer, store, cacheCapacity)
      )
    }
  }

  private def testOf[K](timers: TimerType[_], part: KeyPart[K])(
      test: KeyPart[K] => K => Boolean
  ): Array[Byte] => Boolean = {
    val serializer = new TimerSerializer(timers.asInstanceOf[TimerType[K]])
    val view = new InputView
    bytes => {
      view.wrap(bytes, OrderPreserving.KeyGroupBytes, bytes.length - OrderPreserving.KeyGroupBytes)
      test(part)(serializer.deserialize(view).key)
    }
  }

  /** The name of the column family, which is on disk. */
  private def nameOf(kind: TimeDomain): String = kind match {
    case TimeDomain.EVENT_TIME => "timers-event"
    case TimeDomain.PROCESSING_TIME => "timers-processing"
  }
}
