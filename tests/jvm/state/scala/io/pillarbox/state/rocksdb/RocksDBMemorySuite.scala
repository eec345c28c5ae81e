package io.pillarbox.state.rocksdb

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._
import scala.util.Random

import io.pillarbox.api.{Bytes, ScalaSerializers, Serializers}
import io.pillarbox.state.TestState
import io.pillarbox.state.rocksdb.cache.{CacheBudget, WriteBackCache}
import io.pillarbox.state.rocksdb.store.{RocksDBConfig, RocksDBMemory, RocksDBStore}
import io.pillarbox.testing.FewAndMany
import org.rocksdb.{ColumnFamilyHandle, RocksDB}
import org.scalatest.funsuite.AnyFunSuite

/** What many databases in one process take, as with Spark's default of 200 partitions. */
class RocksDBMemorySuite extends AnyFunSuite with RocksDBFixture with FewAndMany {

  random("databases that are written stay within the limit, and take little beside it", 80, 200) {
    databases =>
      val (bytesBefore, filesBefore) = (residentBytes, openFiles)
      val backends = Seq.fill(databases)(openAt(newDirectory(), ScalaSerializers.long))
      try {
        val memory = RocksDBMemory.acquire(1L << 30)
        try {
          backends.foreach(write)
          assert(memory.usage <= memory.limit)
          // Objects on the heap among them.
          assert((residentBytes - bytesBefore) / databases < (1500L << 10))
          assert((openFiles - filesBefore) / databases <= 10)
        } finally memory.close()
      } finally backends.foreach(_.close())
  }

  test("a database beyond its memory has partitioned tables once it is opened again, and reads all others") {
    val folder = newDirectory()
    def withStore(body: (RocksDBStore, ColumnFamilyHandle) => Unit): Unit = {
      val store = new RocksDBStore(RocksDBConfig(folder, memoryLimit = 1L << 20))
      try body(store, store.columnFamily("many"))
      finally store.close()
    }
    withStore { (store, family) =>
      assert(!store.isPartitioned && !store.hasOutgrown)
      put(store, family, 0 until 6000)
      assert(store.hasOutgrown)
    }
    withStore { (store, family) =>
      assert(store.isPartitioned && !store.hasOutgrown)
      put(store, family, 3000 until 9000)
      val found = new Array[Byte](1000)
      (0 until 9000).foreach(i => assert(store.get(family, keyOf(i), 8, found) == found.length, i))
      assert(store.get(family, keyOf(9000), 8, found) == RocksDB.NOT_FOUND)
    }
  }

  private def keyOf(number: Int): Array[Byte] = {
    val key = new Array[Byte](8)
    Bytes.putLong(key, 0, number.toLong)
    key
  }

  /** Values that don't compress, in files. */
  private def put(store: RocksDBStore, family: ColumnFamilyHandle, numbers: Range): Unit = {
    val (random, value) = (new Random(3), new Array[Byte](1000))
    numbers.foreach { number =>
      random.nextBytes(value)
      store.batch.put(family.getID, keyOf(number), 0, 8, value, 0, value.length)
    }
    store.batch.write()
    store.flush()
  }

  test("a cache with more than its share of the budget is full once another one gets nothing") {
    val budget = new CacheBudget(64 << 10)
    val (greedy, poor) = (new WriteBackCache(16 << 10, budget), new WriteBackCache(16 << 10, budget))
    fill(greedy)
    greedy.clear()
    assert(budget.used == 0)
    fill(greedy, upTo = 70 << 10)
    assert(!greedy.isFull, "nobody else wants it")
    fill(poor)
    assert(poor.used < (32 << 10) && greedy.isFull)
    greedy.clear()
    poor.clear()
    fill(poor, upTo = 70 << 10)
    assert(!poor.isFull)
    Seq(greedy, poor).foreach(_.close())
    assert(budget.used == 0)
  }

  private def fill(cache: WriteBackCache, upTo: Long = Long.MaxValue): Unit = {
    val key = new Array[Byte](8)
    while (cache.used < upTo && !cache.isFull) {
      Bytes.putLong(key, 0, cache.size.toLong)
      cache.add(0, key, key.length)
    }
  }

  private def write(backend: RocksDBKeyedStateBackend[Long]): Unit = {
    val states = Seq("a", "b").map(name => backend.getOrCreate(TestState.value(name, Serializers.ofString)))
    for (key <- 0L until 100L; state <- states) {
      backend.setCurrentKey(key)
      state.update(s"value $key")
    }
    backend.entries.dirty.write()
  }

  private def residentBytes: Long = {
    System.gc()
    val status = Files.readAllLines(Paths.get("/proc/self/status"), UTF_8).asScala
    status.find(_.startsWith("RssAnon")).get.filter(_.isDigit).toLong << 10
  }

  private def openFiles: Int = {
    val files = Files.list(Paths.get("/proc/self/fd"))
    try files.count.toInt
    finally files.close()
  }
}
