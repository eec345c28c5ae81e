package io.pillarbox.bench

import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

/**
 * Of 100,000 values, into memory. `checkpoint`: in RocksDB both copy all files of the database, whose content
 * they don't read. `snapshot`: ours reads all entries and writes the portable form; Flink's is the same as
 * its checkpoint.
 */
@OutputTimeUnit(TimeUnit.MILLISECONDS)
class StateSnapshotBench extends PeerBench {

  @Param(Array("heap", "rocksdb"))
  var backend: String = _

  @Param(Array("off", "on"))
  var ttl: String = _

  private var store: KeyedStore = _

  @Setup
  def open(): Unit = {
    store = KeyedStore.open(of, backend, ttl)
    for (i <- 0L until 100000L) {
      store.setKey(i)
      store.update(i)
    }
  }

  @TearDown
  def close(): Unit = store.close()

  @Benchmark
  def snapshot(): Long = store.snapshot()

  @Benchmark
  def checkpoint(): Long = store.checkpoint()
}
