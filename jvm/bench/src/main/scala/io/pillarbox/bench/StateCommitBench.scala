package io.pillarbox.bench

import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

/**
 * A commit of 1,000 changed values among many: its cost must not depend on how many there are. RocksDB's
 * write-back cache holds about 100,000 of them; among more, the database itself is written.
 */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.MICROSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 1, jvmArgsAppend = Array("-Xmx3g"))
class StateCommitBench {
  @Param(Array("heap", "rocksdb"))
  var backend: String = _

  @Param(Array("10000", "300000", "1000000", "3000000"))
  var entries: Int = _

  private var store: KeyedStore = _
  private var from = 0

  @Setup
  def open(): Unit = {
    store = KeyedStore.open("pillarbox", backend, "off")
    for (i <- 0 until entries) {
      store.setKey(i.toLong)
      store.update(i.toLong)
    }
    store.commit(): Unit
  }

  @TearDown
  def close(): Unit = store.close()

  /** Neighbours, so that what is measured is the commit and not the misses of a processor's cache. */
  @Benchmark
  def changeAndCommit(): Long = {
    from = (from + 1000) % entries
    var i = 0
    while (i < 1000) {
      store.setKey((from + i).toLong)
      store.update(i.toLong)
      i += 1
    }
    store.commit()
  }
}
