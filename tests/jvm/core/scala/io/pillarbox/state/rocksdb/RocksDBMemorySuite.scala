package io.pillarbox.state.rocksdb

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._

import io.pillarbox.api.{Bytes, ScalaSerializers, Serializers}
import io.pillarbox.state.TestState
import io.pillarbox.state.rocksdb.cache.{CacheBudget, WriteBackCache}
import io.pillarbox.state.rocksdb.store.RocksDBMemory
import org.scalatest.funsuite.AnyFunSuite

/** What many databases in one process take, as with Spark's default of 200 partitions. */
class RocksDBMemorySuite extends AnyFunSuite with RocksDBFixture {
  private val Databases = 200

  test("two hundred databases that are written stay within the limit, and take little beside it") {
    val (bytesBefore, filesBefore) = (residentBytes, openFiles)
    val backends = Seq.fill(Databases)(openAt(newDirectory(), ScalaSerializers.long))
    try {
      val memory = RocksDBMemory.acquire(1L << 30)
      try {
        backends.foreach(write)
        assert(memory.usage <= memory.limit)
        // Objects on the heap among them.
        assert((residentBytes - bytesBefore) / Databases < (1500L << 10))
        assert((openFiles - filesBefore) / Databases <= 10)
      } finally memory.close()
    } finally backends.foreach(_.close())
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
