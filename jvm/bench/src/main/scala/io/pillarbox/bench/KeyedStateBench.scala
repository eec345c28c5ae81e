package io.pillarbox.bench

import java.util.concurrent.{ThreadLocalRandom, TimeUnit}

import org.openjdk.jmh.annotations._

/**
 * One access of keyed state with a random current key out of 100,000, from Flink and from us.
 *
 * Both have the same fixed clock. Flink's RocksDB backend needs the classes of its own frocksdbjni, whose names are those of the
 * rocksdbjni that ours uses, so the build leaves that jar out: measure its rows by a run of their own, with that jar before all
 * others on the class path, `-p system=flink -p backend=rocksdb`, and ours by one without it.
 */
@State(Scope.Thread)
@BenchmarkMode(Array(Mode.AverageTime))
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 1, jvmArgsAppend = Array("-Xmx2g"))
class KeyedStateBench {
  @Param(Array("flink", "pillarbox"))
  var system: String = _

  @Param(Array("heap", "rocksdb"))
  var backend: String = _

  @Param(Array("off", "on", "lazy"))
  var ttl: String = _

  private var store: KeyedStore = _
  private val keys: Array[java.lang.Long] =
    Array.tabulate(KeyedStateBench.Keys)(i => java.lang.Long.valueOf(i * 7L))
  private val values: Array[java.lang.Long] = Array.tabulate(1024)(i => java.lang.Long.valueOf(i * 1000003L))
  private var step = 0

  @Setup
  def open(): Unit = {
    store = KeyedStore.open(system, backend, ttl)
    keys.foreach { key =>
      store.setKey(key)
      store.update(key)
    }
    for (k <- 0 until KeyedStateBench.MapKeys; i <- 0 until 10) {
      store.setKey(keys(k))
      store.mapPut(values(i), values(i))
      store.listAdd(values(i))
    }
  }

  @TearDown
  def close(): Unit = store.close()

  private def next(): Int = {
    step += 1
    step & 1023
  }

  private def randomKey(of: Int): java.lang.Long = keys(ThreadLocalRandom.current().nextInt(of))

  @Benchmark
  def valueGet(): java.lang.Long = {
    store.setKey(randomKey(KeyedStateBench.Keys))
    store.value()
  }

  @Benchmark
  def valueUpdate(): Unit = {
    store.setKey(randomKey(KeyedStateBench.Keys))
    store.update(values(next()))
  }

  @Benchmark
  def mapGet(): java.lang.Long = {
    store.setKey(randomKey(KeyedStateBench.MapKeys))
    store.mapGet(values(next() % 10))
  }

  @Benchmark
  def mapPut(): Unit = {
    store.setKey(randomKey(KeyedStateBench.MapKeys))
    store.mapPut(values(next() % 10), values(next()))
  }

  @Benchmark
  def listIterate(): Long = {
    store.setKey(randomKey(KeyedStateBench.MapKeys))
    store.listSum()
  }

  /** Ten additions, then the list starts afresh; a tenth of it is one. */
  @Benchmark
  @OperationsPerInvocation(11)
  def listAdd(): Unit = {
    store.setKey(randomKey(KeyedStateBench.Keys))
    store.listClear()
    var i = 0
    while (i < 10) {
      store.listAdd(values(i))
      i += 1
    }
  }
}

object KeyedStateBench {
  final val Keys = 100000

  /** Keys that have a map and a list of ten. */
  final val MapKeys = 10000
}
