package io.pillarbox.queue

import java.util.function.LongSupplier

import scala.collection.mutable

import io.pillarbox.queue.TestElement.LocalKeys
import io.pillarbox.state.StateBackendException
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

private object RocksDBQueues {

  /** All key groups of the test's partition, over one store. */
  def over(
      store: OrderedByteStore,
      cache: Int,
      rangeDeleteAfter: Int = 1000,
      nanoTime: LongSupplier = () => System.nanoTime
  ): KeyGroupPartitionedPriorityQueue[TestElement] =
    new KeyGroupPartitionedPriorityQueue(
      TestElement.Groups,
      TestElement.GroupOf,
      group =>
        new RocksDBCachingPriorityQueueSet(group, TestElement.Serializer, store, cache, rangeDeleteAfter),
      nanoTime
    )
}

class MemoryStoreQueueSuite extends KeyGroupedPriorityQueueContract {
  override protected def newQueue() = RocksDBQueues.over(new MemoryOrderedByteStore, cache = 4)
}

class SingleGroupStoreQueueSuite extends PriorityQueueSetContract {
  override protected def newQueue() =
    new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, new MemoryOrderedByteStore, 1)
}

class RocksDBQueueSuite extends KeyGroupedPriorityQueueContract with BeforeAndAfterAll {
  private val databases = mutable.ArrayBuffer.empty[RocksDBFixture]

  override protected def newQueue() = {
    databases += new RocksDBFixture
    RocksDBQueues.over(databases.last.newStore(), cache = 16)
  }

  override protected def afterAll(): Unit = databases.foreach(_.close())

  test("what was flushed is there after a restart, in order") {
    val database = new RocksDBFixture
    databases += database
    val queue = RocksDBQueues.over(database.newStore(), cache = 4)
    val elements = for (key <- LocalKeys.take(20); time <- -5L until 5L) yield TestElement(key, time)
    queue.addAll(elements)
    val gone = Seq.fill(50)(queue.poll())
    queue.flush()
    database.restart()
    val restored = RocksDBQueues.over(database.newStore(), cache = 4)
    val left = elements.diff(gone)
    assert(restored.size == left.size)
    assert(Seq.fill(left.size)(restored.poll().priority) == left.map(_.priority).sorted)
    assert(restored.isEmpty)
  }

  test("the batch format holds long keys, many keys and the default column family") {
    val database = new RocksDBFixture
    databases += database
    for (family <- Seq(database.timers, database.db.columnFamilies.head)) {
      val store = new RocksDBOrderedByteStore(database.db, family, 1 << 20)
      val keys = (0 until 300).map(i => Array.tabulate[Byte](1 + i * 7)(j => (i + j).toByte))
      keys.foreach(store.put)
      keys.zipWithIndex.filter(_._2 % 3 == 0).foreach { case (key, _) => store.delete(key) }
      store.put(Array[Byte](-3, 1))
      store.put(Array[Byte](-3, 7))
      store.deleteRange(Array[Byte](-3, 1), Array[Byte](-3, 8))
      val cursor = store.scan(Array.emptyByteArray, Array.fill(3)(0xff.toByte))
      var found = Set.empty[Seq[Byte]]
      while (cursor.advance()) found += cursor.key.toSeq
      assert(!cursor.advance())
      cursor.close()
      assert(found == keys.zipWithIndex.filter(_._2 % 3 != 0).map(_._1.toSeq).toSet)
    }
  }

  test("a refill writes what waits of its own key group, no other's") {
    val database = new RocksDBFixture
    databases += database
    def written = database.db.property("rocksdb.num-entries-active-mem-table")
    val store = database.newStore(limitBytes = 1 << 20)
    val Seq(one, other) =
      Seq(3, 4).map(new RocksDBCachingPriorityQueueSet(_, TestElement.Serializer, store, 4))
    for (time <- 0L until 100L; queue <- Seq(one, other)) queue.add(TestElement(1, time))
    assert(written == 0)
    assert(Seq.fill(4)(one.poll().priority) == (0L until 4L) && written == 0)
    assert(one.poll().priority == 4 && written == 96)
    assert(Seq.fill(100)(other.poll().priority) == (0L until 100L))
    assert(Seq.fill(95)(one.poll().priority) == (5L until 100L))
  }

  test("the estimate is the size itself as long as all is in the caches, also after a restart") {
    val database = new RocksDBFixture
    databases += database
    val queue = RocksDBQueues.over(database.newStore(), cache = 1000)
    val elements = randomElements(500, 3)
    elements.foreach(queue.add)
    elements.take(50).foreach(queue.remove)
    queue.addAll(elements.drop(400))
    (0 until 30).foreach(_ => queue.poll())
    assert(queue.estimatedSize() == elements.size - 80)
    queue.flush()
    database.restart()
    assert(RocksDBQueues.over(database.newStore(), cache = 1000).estimatedSize() == elements.size - 80)
  }

  test("a store that is closed under the queue is an error that names it") {
    val database = new RocksDBFixture
    databases += database
    val store = database.newStore(limitBytes = 1 << 20)
    store.put(Array[Byte](1))
    database.db.dropColumnFamily(database.timers)
    val failure = intercept[StateBackendException](store.flush())
    assert(failure.condition == "STATE_STORE_FAILED" && failure.getMessage.contains(database.folder.toString))
  }
}

/** The store as seen from the queue: what is read and written when. */
class RocksDBCachingPriorityQueueSetSuite extends AnyFunSuite {
  private val store = new MemoryOrderedByteStore

  private def queueOf(capacity: Int) =
    new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, store, capacity)

  private def at(time: Long) = TestElement(1, time)

  private def times(elements: Iterator[TestElement]) = elements.map(_.priority).toSeq.sorted

  test("Flink's seek hint: an add below the last polled element is in iterator, size and subset") {
    // Flink 2.3.0 keeps its hint at 100 and then misses 50 and all that is added below.
    val queue = queueOf(2)
    queue.add(at(100))
    queue.poll()
    queue.add(at(50))
    queue.add(at(150))
    assert(times(queue.iterator) == Seq(50, 150) && queue.size == 2)
    (-199L to 0L).foreach(time => queue.add(at(time)))
    assert(queue.size == 202)
    assert(times(queue.iterator) == (-199L to 0L) ++ Seq(50L, 150L))
    assert(Seq.fill(202)(queue.poll().priority) == (-199L to 0L) ++ Seq(50L, 150L))
  }

  test("FLINK-40584: a read never leaves the key group, however much its neighbour deleted") {
    val bounds = mutable.ArrayBuffer.empty[(Int, Int)]
    val watched = new OrderedByteStore {
      override def put(key: Array[Byte]): Unit = store.put(key)
      override def delete(key: Array[Byte]): Unit = store.delete(key)
      override def deleteRange(from: Array[Byte], until: Array[Byte]): Unit = store.deleteRange(from, until)
      override def flush(): Unit = store.flush()
      override def scan(from: Array[Byte], until: Array[Byte]): OrderedByteCursor = {
        bounds += ((from(1).toInt, until(1).toInt))
        store.scan(from, until)
      }
    }
    val queue = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, watched, 2)
    (0L until 10L).foreach(time => queue.add(at(time)))
    while (queue.poll() != null) {}
    assert(queue.size == 0 && queue.isEmpty)
    assert(bounds.nonEmpty && bounds.forall(_ == ((3, 4))))
  }

  test("a refill starts behind everything that was polled") {
    val froms = mutable.ArrayBuffer.empty[Array[Byte]]
    val inner = new MemoryOrderedByteStore
    val watched = new OrderedByteStore {
      override def put(key: Array[Byte]): Unit = inner.put(key)
      override def delete(key: Array[Byte]): Unit = inner.delete(key)
      override def deleteRange(from: Array[Byte], until: Array[Byte]): Unit = inner.deleteRange(from, until)
      override def flush(): Unit = ()
      override def scan(from: Array[Byte], until: Array[Byte]): OrderedByteCursor = {
        froms += from
        inner.scan(from, until)
      }
    }
    val queue = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, watched, 4)
    (0L until 100L).foreach(time => queue.add(at(time)))
    (0L until 50L).foreach(_ => queue.poll())
    val out = new io.pillarbox.api.OutputView(32)
    out.writeShort(3)
    TestElement.Serializer.serialize(at(44), out)
    assert(java.util.Arrays.compareUnsigned(froms.last, out.toByteArray) > 0)
  }

  test("elements that come and go within the cache never reach the store") {
    val own = new MemoryOrderedByteStore
    val queue = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, own, 8)
    for (time <- 1L to 1000L) {
      queue.add(at(time))
      queue.add(at(time + 5))
      queue.poll()
      queue.remove(at(time + 5))
    }
    assert(own.puts == 0 && own.deletes == 0 && own.scans == 1)
    queue.add(at(7))
    queue.flush()
    queue.flush()
    assert(own.puts == 1 && own.size == 1)
    queue.poll()
    queue.flush()
    assert(own.deletes == 1 && own.size == 0)
  }

  test("beyond the caches some key groups are counted for all, and seldom") {
    val own = new MemoryOrderedByteStore
    var now = Long.MaxValue - 5
    var nanosOfCount = 1000000L
    val clock: LongSupplier = () => {
      now += nanosOfCount
      now
    }
    val queue = RocksDBQueues.over(own, cache = 8, nanoTime = clock)
    val elements = for (time <- 0L until 200L; key <- LocalKeys) yield TestElement(key, time)
    elements.foreach(queue.add)
    elements.foreach(queue.add) // which the queue can't know beyond its caches
    assert(math.abs(queue.estimatedSize() - elements.size) < elements.size / 4)
    val before = own.scans
    (1 to 100).foreach(_ => queue.estimatedSize())
    assert(own.scans == before)
    now += 10L * 1000 * 1000 * 1000
    nanosOfCount = 1000000000L
    queue.estimatedSize()
    assert(own.scans == before + 1) // one key group has enough
    now += 90L * 1000 * 1000 * 1000
    queue.estimatedSize()
    assert(own.scans == before + 1)
    now += 10L * 1000 * 1000 * 1000
    queue.estimatedSize()
    assert(own.scans == before + 2)
  }

  test("of a large key group only some elements are counted") {
    val queue = RocksDBQueues.over(new MemoryOrderedByteStore, cache = 8, nanoTime = () => 0L)
    (0L until 30000L).foreach(time => queue.add(TestElement(LocalKeys.head, time)))
    val estimated = queue.estimatedSize()
    assert(estimated >= 10000 && estimated < 30000)
  }

  test("adding and removing beyond a filled cache reads nothing") {
    val own = new MemoryOrderedByteStore
    val queue = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, own, 8)
    (0L until 100L).foreach(time => queue.add(at(time)))
    val before = own.scans
    (1000L until 2000L).foreach(time => assert(!queue.add(at(time))))
    (1000L until 1500L).foreach(time => assert(!queue.remove(at(time))))
    assert(own.scans == before)
    assert(queue.size == 600)
  }

  test("many polled elements are deleted as one range, few one by one, and nothing alive with them") {
    for ((count, deletes) <- Seq(10 -> 10, 200 -> 1)) {
      val own = new MemoryOrderedByteStore
      val filler = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, own, 4)
      (0L until 300L).foreach(time => filler.add(at(time)))
      filler.flush()
      val queue = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, own, 4)
      val before = own.deletes
      (0 until count).foreach(_ => queue.poll())
      queue.add(at(5))
      queue.flush()
      assert(own.deletes - before == deletes && own.size == 300 - count + 1)
      assert(queue.peek() == at(5))
    }
  }

  test("an element added again below what was polled survives its delete, evicted or not") {
    val own = new MemoryOrderedByteStore
    val filler = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, own, 4)
    (0L until 100L).foreach(time => filler.add(at(time)))
    filler.flush()
    val queue = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, own, 2)
    (0L until 60L).foreach(_ => queue.poll())
    (0L until 60L by 5).foreach(time => queue.add(at(time)))
    val expected = (0L until 60L by 5) ++ (60L until 100L)
    assert(times(queue.iterator) == expected)
    queue.flush()
    val reopened = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, own, 2)
    assert(times(reopened.iterator) == expected)
  }

  test("a read that fails leaves the queue as it was") {
    val own = new MemoryOrderedByteStore
    val writer = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, own, 2)
    (0L until 9L).foreach(time => writer.add(at(time)))
    writer.flush()
    val queue = new RocksDBCachingPriorityQueueSet(3, TestElement.Serializer, own, 4)
    own.failScans = true
    assertThrows[StateBackendException](queue.peek())
    own.failScans = false
    assert(Seq.fill(9)(queue.poll().priority) == (0L until 9L))
    assert(own.openCursors == 0)
  }

  test("what is handed out shares nothing with what was added") {
    val queue = queueOf(4)
    val added = at(-1000)
    queue.add(added)
    val polled = queue.poll()
    assert(polled == added && !(polled eq added))
  }

  test("up to 32,768 key groups keep apart") {
    val own = new MemoryOrderedByteStore
    val queues = Seq(0, 127, 128, 255, 256, 32767)
      .map(new RocksDBCachingPriorityQueueSet(_, TestElement.Serializer, own, 2))
    for (time <- 0L until 10L; queue <- queues) queue.add(at(time))
    queues.foreach(queue => assert(Seq.fill(10)(queue.poll().priority) == (0L until 10L)))
  }
}
