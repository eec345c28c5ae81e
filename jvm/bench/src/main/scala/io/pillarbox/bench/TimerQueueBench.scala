package io.pillarbox.bench

import java.util.SplittableRandom

import org.openjdk.jmh.annotations._

/** A queue of timers at a steady size: what a stream does to it all day. */
class TimerQueueBench extends PeerBench {

  @Param(Array("heap", "rocksdb"))
  var kind: String = _

  @Param(Array("10000", "1000000"))
  var size: Int = _

  private val random = new SplittableRandom(7)
  private var queue: TimerQueue = _
  private var times: Array[Long] = _
  private var span = 0L

  @Setup
  def setUp(): Unit = {
    queue = TimerQueue.of(of, kind)
    span = size * 1000L
    times = Array.fill(size)(random.nextLong(span))
    times.indices.foreach(key => queue.add(key.toLong, times(key)))
  }

  @TearDown
  def tearDown(): Unit = queue.close()

  @Benchmark
  def pollAndAdd(): Boolean = queue.pollAndAdd(random.nextLong(span))

  /** A session timer that moves: the old one goes, a new one comes. */
  @Benchmark
  def removeAndAdd(): Boolean = {
    val key = random.nextInt(size)
    val wasHead = queue.remove(key.toLong, times(key))
    times(key) = random.nextLong(span)
    queue.add(key.toLong, times(key)) || wasHead
  }

  @Benchmark
  def addDuplicate(): Boolean = {
    val key = random.nextInt(size)
    queue.add(key.toLong, times(key))
  }
}
