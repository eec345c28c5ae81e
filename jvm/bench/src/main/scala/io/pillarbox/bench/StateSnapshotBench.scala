package io.pillarbox.bench

import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

/**
 * A full snapshot of 100,000 values into memory, and the quickest checkpoint there is. Flink's of RocksDB is incremental in either
 * case: nothing changed, so it hands over the files it has; ours links them for `checkpoint` and reads all for `snapshot`.
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
