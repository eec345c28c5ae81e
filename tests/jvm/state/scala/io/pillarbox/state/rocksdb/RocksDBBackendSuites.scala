package io.pillarbox.state.rocksdb

import java.nio.file.{Files, Path}

import scala.collection.mutable
import scala.util.Random

import io.pillarbox.api.{ScalaSerializers, Serializers, TypeSerializer}
import io.pillarbox.state._
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.rocksdb.cache.CacheBudget
import io.pillarbox.state.rocksdb.store.RocksDBConfig
import io.pillarbox.testing.TestDisk
import org.scalatest.{BeforeAndAfterAll, Suite}

/** Opens databases below a temporary directory that goes away after the suite. */
trait RocksDBFixture extends StateFixture with BeforeAndAfterAll { self: Suite =>
  protected lazy val root: Path = TestDisk.newDirectory("pillarbox-rocksdb")

  protected def newDirectory(): Path = Files.createTempDirectory(root, "db")

  protected def cacheBytes: Int = 1 << 20

  protected def sharedCache: CacheBudget = CacheBudget.None

  protected def listChunkBytes: Int = 4096

  override def openBackend[K](
      keys: TypeSerializer[K],
      clock: StateClock,
      sweeps: Boolean
  ): KeyedStateBackend[K] = openAt(newDirectory(), keys, clock)

  protected def openAt[K](
      directory: Path,
      keys: TypeSerializer[K],
      clock: StateClock = new ManualClock
  ): RocksDBKeyedStateBackend[K] = new RocksDBKeyedStateBackend[K](
    keys,
    clock,
    RocksDBConfig(
      directory,
      memoryLimit = 32L << 20,
      cacheBytes = cacheBytes,
      sharedCache = sharedCache,
      listChunkBytes = listChunkBytes
    )
  )

  override protected def afterAll(): Unit = TestDisk.delete(root)
}

class RocksDBKeyedStateSuite extends KeyedStateContract with RocksDBFixture

/** With a cache so small that it is emptied all the time, and lists of many chunks. */
class RocksDBTinyCacheSuite extends KeyedStateContract with RocksDBFixture {
  override protected def cacheBytes: Int = 16 << 10

  override protected def listChunkBytes: Int = 8

  test("wherever a key is expected to be found, another key's value is never taken for its own") {
    val random = new Random(7)
    val model = mutable.Map.empty[String, String]
    val backend = openAt(newDirectory(), Serializers.ofString)
    try {
      val state = backend.getOrCreate(TestState.value("v", Serializers.ofString))
      val addressed = state.asInstanceOf[AddressedValue]
      for (step <- 0 until 20000) {
        val key = s"key ${random.nextInt(500)}"
        backend.setCurrentKey(key)
        if (random.nextBoolean()) addressed.expectAt(random.nextInt(700) - 10)
        assert(Option(state.value()) == model.get(key))
        if (random.nextBoolean()) addressed.expectAt(random.nextInt(700) - 10)
        if (random.nextInt(4) == 0) {
          state.clear()
          model -= key
        } else {
          state.update(s"value $step")
          model(key) = s"value $step"
        }
      }
    } finally backend.close()
  }
}

/** With a cache that takes what it can from a budget, and is emptied when nothing is left. */
class RocksDBSharedCacheSuite extends KeyedStateContract with RocksDBFixture {
  private val budget = new CacheBudget(64 << 10)

  override protected def cacheBytes: Int = 16 << 10

  override protected def sharedCache: CacheBudget = budget

  test("what a cache took of the budget is given back when it is emptied and when it is closed") {
    val backend = openAt(newDirectory(), ScalaSerializers.long)
    val state = backend.getOrCreate(TestState.value("v", ScalaSerializers.long))
    var peak = 0L
    for (key <- 0L until 10000L) {
      backend.setCurrentKey(key)
      state.update(key)
      peak = math.max(peak, budget.used)
    }
    assert(peak == budget.limit)
    assert((0L until 10000L).forall { key =>
      backend.setCurrentKey(key)
      state.value() == key
    })
    backend.close()
    assert(budget.used == 0)
  }
}

class RocksDBTtlSuite extends TtlContract with RocksDBFixture

/** With chunks that an element fills. */
class RocksDBTinyChunksTtlSuite extends TtlContract with RocksDBFixture {
  override protected def listChunkBytes: Int = 1
}

/** With a cache so small that changes are spilled before they are committed, and lists of several chunks. */
class RocksDBPersistenceSuite extends PersistenceContract with RocksDBFixture {
  override protected def cacheBytes: Int = 16 << 10

  override protected def listChunkBytes: Int = 1

  override protected def fresh(): KeyedStateBackend[String] =
    new HeapKeyedStateBackend[String](Serializers.ofString, new ManualClock)
}
