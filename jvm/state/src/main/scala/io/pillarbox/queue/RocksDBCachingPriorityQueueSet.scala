package io.pillarbox.queue

import io.pillarbox.api.{InputView, OutputView}

/**
 * The queue of one key group over an ordered byte store, with its smallest elements in a bounded cache.
 *
 * A key in the store is the key group, then the element's order-preserving bytes; a duplicate is an element
 * with the same bytes. All rests on one invariant: '''the cache holds exactly the elements below
 * `coverageEnd`'''. So
 *   - an add or remove below it needs no read to know whether the element is there, and one above it can't
 *     change the head while the cache is not empty;
 *   - `coverageEnd` is also where reading goes on, past the tombstones of all that was polled: it only moves
 *     up when the store was read, and comes down when the cache evicts, so no element is ever below it
 *     unseen;
 *   - the store is read only when the cache is empty and does not cover everything.
 *
 * Elements that come and go within the cache never reach the store. Those that it lacks are written when
 * evicted, and by [[flush]], which must come before a checkpoint of the store; so are the deletes of polled
 * elements. Writes are batched by the store.
 *
 * Elements handed out are read from bytes: they share nothing with the objects that were added.
 *
 * @param cacheCapacity the most elements that the cache holds, at least 1
 * @param rangeDeleteAfter the number of polled elements at which they are deleted from the store, as one
 *   range
 */
private[pillarbox] final class RocksDBCachingPriorityQueueSet[T >: Null <: Prioritized](
    keyGroup: Int,
    serializer: OrderPreservingSerializer[T],
    store: OrderedByteStore,
    cacheCapacity: Int = RocksDBCachingPriorityQueueSet.DefaultCacheCapacity,
    rangeDeleteAfter: Int = RocksDBCachingPriorityQueueSet.DefaultRangeDeleteAfter
) extends InternalPriorityQueue[T] {
  import OrderPreserving.KeyGroupBytes
  import RocksDBCachingPriorityQueueSet._
  require(
    cacheCapacity > 0,
    s"The cache of a queue needs room for at least one element, found $cacheCapacity"
  )

  private val groupEnd = OrderPreserving.keyGroupStart(keyGroup + 1)
  private val cache = new OrderedKeyCache(cacheCapacity, KeyGroupBytes)
  private val polled = new PolledKeys(store, rangeDeleteAfter)
  private val output = new OutputView(64)
  private val input = new InputView

  /** All elements below this key are in the cache; `groupEnd` means all. */
  private var coverageEnd = OrderPreserving.keyGroupStart(keyGroup)
  private var head: T = null

  override def peek(): T = {
    if (head == null && fillCache()) head = read(cache.first)
    head
  }

  override def poll(): T = {
    val first = peek()
    if (first != null) {
      if (cache.isStored(0)) polled.add(cache.first)
      cache.removeFirst()
      head = null
    }
    first
  }

  override def add(element: T): Boolean = {
    val key = keyOf(element)
    fillCache()
    if (isCovered(key)) addCovered(key)
    else {
      store.put(key)
      false
    }
  }

  override def remove(element: T): Boolean = {
    val key = keyOf(element)
    fillCache()
    if (isCovered(key)) removeCovered(key)
    else {
      store.delete(key)
      false
    }
  }

  override def isEmpty: Boolean = !fillCache()

  /** Counts the keys of the store that are not cached: O(n) beyond the cache. */
  override def size: Int = {
    val rest = scanUncached()
    var count = cache.size
    try while (rest.advance()) count += 1
    finally rest.close()
    count
  }

  override def knownSize: Int = if (coverageEnd eq groupEnd) cache.size else -1

  override def addAll(more: Iterable[T]): Unit =
    if (more != null) more.foreach { element =>
      add(element)
    }

  /** The elements as they are now; later changes don't show. */
  override def iterator: CloseableIterator[T] = new SnapshotIterator(cache.toArray, scanUncached())

  override def flush(): Unit = {
    polled.deleteAll()
    cache.markAllStored(key => store.put(key))
    store.flush()
  }

  private def keyOf(element: T): Array[Byte] = {
    output.clear()
    output.writeShort(keyGroup)
    serializer.serialize(element, output)
    output.toByteArray
  }

  private def read(key: Array[Byte]): T = {
    input.wrap(key, KeyGroupBytes, key.length - KeyGroupBytes)
    serializer.deserialize(input)
  }

  private def isCovered(key: Array[Byte]): Boolean =
    (coverageEnd eq groupEnd) || java.util.Arrays.compareUnsigned(key, coverageEnd) < 0

  private def addCovered(key: Array[Byte]): Boolean = {
    val found = cache.search(key)
    found < 0 && {
      cache.insert(-found - 1, key, isStored = false)
      if (cache.isOverLimit) evictLast()
      if (found == -1) head = null
      found == -1
    }
  }

  private def removeCovered(key: Array[Byte]): Boolean = {
    val found = cache.search(key)
    if (found >= 0) removeCached(found)
    found == 0
  }

  private def removeCached(index: Int): Unit = {
    if (cache.isStored(index)) store.delete(cache(index))
    cache.remove(index)
    if (index == 0) head = null
  }

  private def evictLast(): Unit = {
    coverageEnd = cache.last
    // A polled key must not be seen again behind the new end, nor its delete hit a key that is written now.
    polled.deleteFrom(coverageEnd)
    if (!cache.isStored(cache.size - 1)) store.put(coverageEnd)
    cache.removeLast()
  }

  /** True if there is a first element, which is in the cache then. */
  private def fillCache(): Boolean = {
    if (cache.isEmpty && (coverageEnd ne groupEnd)) refill()
    !cache.isEmpty
  }

  private def refill(): Unit = {
    val rest = scanUncached()
    try coverageEnd = readInto(cache, rest)
    catch {
      case failure: Throwable =>
        // The cache must not keep keys that are not covered.
        while (!cache.isEmpty) cache.removeLast()
        throw failure
    } finally rest.close()
  }

  /** Reads keys until the cache is full; returns the end of its coverage. */
  private def readInto(cache: OrderedKeyCache, rest: OrderedByteCursor): Array[Byte] = {
    var more = rest.advance()
    while (more && cache.size < cacheCapacity) {
      cache.insert(cache.size, rest.key, isStored = true)
      more = rest.advance()
    }
    if (more) rest.key else groupEnd
  }

  private def scanUncached(): OrderedByteCursor =
    if (coverageEnd eq groupEnd) EmptyCursor else store.scan(coverageEnd, groupEnd)

  private final class SnapshotIterator(cached: Array[Array[Byte]], rest: OrderedByteCursor)
      extends CloseableIterator[T] {
    private var index = 0
    private var waiting: Array[Byte] = _

    override def hasNext: Boolean = {
      if (waiting == null) {
        if (index < cached.length) {
          waiting = cached(index)
          index += 1
        } else if (rest.advance()) waiting = rest.key
      }
      waiting != null
    }

    override def next(): T = {
      if (!hasNext) throw new NoSuchElementException("The queue has no further element")
      val key = waiting
      waiting = null
      read(key)
    }

    override def close(): Unit = rest.close()
  }
}

private[pillarbox] object RocksDBCachingPriorityQueueSet {

  /** Flink's default too; 128 key groups of 30-byte keys then cache about 1 MB. */
  val DefaultCacheCapacity: Int = 128

  val DefaultRangeDeleteAfter: Int = 512

  private object EmptyCursor extends OrderedByteCursor {
    override def advance(): Boolean = false
    override def key: Array[Byte] = throw new NoSuchElementException("The cursor stands on no key")
    override def close(): Unit = ()
  }
}
