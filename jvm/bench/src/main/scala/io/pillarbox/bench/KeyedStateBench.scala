package io.pillarbox.bench

import java.util.concurrent.ThreadLocalRandom

import org.openjdk.jmh.annotations._

/**
 * One access of keyed state with a random current key out of `keys`, from Flink and from us, each with the
 * clock that it has in a job (Flink asks the system, ours is the micro-batch's time) and, in RocksDB, its own
 * build of the library ([[FlinkRocksDBLoader]]).
 *
 * Ours commits after every iteration, as it does after a micro-batch on Spark. On the heap that is a separate
 * result (left-out), for a commit is a checkpoint there and Flink makes none, but what is noted for it
 * counts; in RocksDB it counts, for it writes what our cache held back. A million values fit that cache of 144
 * MiB, ten million don't. Maps and lists have ten elements, and a tenth of the keys.
 */
class KeyedStateBench extends PeerBench {

  @Param(Array("heap", "rocksdb"))
  var backend: String = _

  @Param(Array("off", "on"))
  var ttl: String = _

  @Param(Array("100000"))
  var keys: Int = _

  private var store: KeyedStore = _
  private var boxed: Array[java.lang.Long] = _
  private val values: Array[java.lang.Long] = Array.tabulate(1024)(i => java.lang.Long.valueOf(i * 1000003L))
  private var step = 0

  @Setup
  def open(): Unit = {
    store = KeyedStore.open(of, backend, ttl)
    boxed = Array.tabulate(keys)(i => java.lang.Long.valueOf(i * 7L))
    boxed.foreach { key =>
      store.setKey(key)
      store.update(key)
    }
    for (k <- 0 until keys / 10; i <- 0 until 10) {
      store.setKey(boxed(k))
      store.mapPut(values(i), values(i))
      store.listAdd(values(i))
    }
    store.endBatch()
    Quiet.await()
  }

  @TearDown(Level.Iteration)
  def endBatch(): Unit =
    if (backend == "heap") CpuTimeProfiler.leaveOut(store.endBatch()) else store.endBatch()

  @TearDown
  def close(): Unit = store.close()

  private def next(): Int = {
    step += 1
    step & 1023
  }

  private def randomKey(of: Int): java.lang.Long = boxed(ThreadLocalRandom.current().nextInt(of))

  @Benchmark
  def valueGet(): java.lang.Long = {
    store.setKey(randomKey(keys))
    store.value()
  }

  @Benchmark
  def valueUpdate(): Unit = {
    store.setKey(randomKey(keys))
    store.update(values(next()))
  }

  @Benchmark
  def mapGet(): java.lang.Long = {
    store.setKey(randomKey(keys / 10))
    store.mapGet(values(next() % 10))
  }

  @Benchmark
  def mapPut(): Unit = {
    store.setKey(randomKey(keys / 10))
    store.mapPut(values(next() % 10), values(next()))
  }

  @Benchmark
  def listIterate(): Long = {
    store.setKey(randomKey(keys / 10))
    store.listSum()
  }

  /**
   * One element more for any of the lists, which are never read; so most are not in a cache if there are
   * many.
   */
  @Benchmark
  def listAppend(): Unit = {
    store.setKey(randomKey(keys))
    store.listAdd(values(next()))
  }

  /** Ten additions, then the list starts afresh; a tenth of it is one. */
  @Benchmark
  @OperationsPerInvocation(11)
  def listAdd(): Unit = {
    store.setKey(randomKey(keys))
    store.listClear()
    var i = 0
    while (i < 10) {
      store.listAdd(values(i))
      i += 1
    }
  }
}
