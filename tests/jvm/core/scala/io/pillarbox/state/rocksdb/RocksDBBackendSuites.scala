package io.pillarbox.state.rocksdb

import java.nio.file.{Files, Path}

import io.pillarbox.state._
import io.pillarbox.state.heap.HeapKeyedStateBackend
import io.pillarbox.state.serialization.{Serializers, TypeSerializer}
import io.pillarbox.testing.TestDisk
import org.scalatest.{BeforeAndAfterAll, Suite}

/** Opens databases below a temporary directory that goes away after the suite. */
trait RocksDBFixture extends StateFixture with BeforeAndAfterAll { self: Suite =>
  protected lazy val root: Path = TestDisk.newDirectory("pillarbox-rocksdb")

  protected def newDirectory(): Path = Files.createTempDirectory(root, "db")

  protected def cacheBytes: Int = 1 << 20

  override def openBackend[K](
      keys: TypeSerializer[K],
      clock: StateClock,
      range: KeyGroupRange
  ): KeyedStateBackend[K] = openAt(newDirectory(), keys, clock, range)

  protected def openAt[K](
      directory: Path,
      keys: TypeSerializer[K],
      clock: StateClock = new ManualClock,
      range: KeyGroupRange = KeyGroupRange(0, 127)
  ): RocksDBKeyedStateBackend[K] = new RocksDBKeyedStateBackend[K](
    keys,
    128,
    range,
    clock,
    RocksDBConfig(directory, memoryLimit = 32L << 20, cacheBytes = cacheBytes)
  )

  override protected def afterAll(): Unit = TestDisk.delete(root)
}

class RocksDBKeyedStateSuite extends KeyedStateContract with RocksDBFixture

/** With a cache so small that it is emptied all the time. */
class RocksDBTinyCacheSuite extends KeyedStateContract with RocksDBFixture {
  override protected def cacheBytes: Int = 16 << 10
}

class RocksDBTtlSuite extends TtlContract with RocksDBFixture

/** With a cache so small that changes are spilled before they are committed. */
class RocksDBPersistenceSuite extends PersistenceContract with RocksDBFixture {
  override protected def cacheBytes: Int = 16 << 10

  override protected def fresh(): KeyedStateBackend[String] =
    new HeapKeyedStateBackend[String](Serializers.string, 128, KeyGroupRange(0, 127), new ManualClock)
}
