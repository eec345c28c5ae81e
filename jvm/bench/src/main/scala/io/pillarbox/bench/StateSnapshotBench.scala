package io.pillarbox.bench

import java.util.concurrent.TimeUnit

import org.openjdk.jmh.annotations._

/** A full snapshot of values into memory, from Flink and from us. */
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
}
