package io.pillarbox.bench

import java.util.SplittableRandom

import org.openjdk.jmh.annotations._

/** A million timers that come, and that all leave: the cost of draining is the difference of the two. */
@BenchmarkMode(Array(Mode.SingleShotTime))
@Warmup(iterations = 3)
@Measurement(iterations = 5)
class TimerQueueFillBench extends PeerBench {
  import TimerQueueFillBench._

  @Param(Array("heap", "rocksdb"))
  var kind: String = _

  private val times = {
    val random = new SplittableRandom(7)
    Array.fill(Size)(random.nextLong(Size * 1000L))
  }

  @Benchmark
  @OperationsPerInvocation(Size)
  def fill(): TimerQueue = {
    val queue = filled()
    queue.close()
    queue
  }

  @Benchmark
  @OperationsPerInvocation(Size)
  def fillAndDrain(): Int = {
    val queue = filled()
    val count = queue.drain()
    queue.close()
    if (count != Size) throw new IllegalStateException(s"$count timers came out, $Size went in")
    count
  }

  private def filled(): TimerQueue = {
    val queue = TimerQueue.of(of, kind)
    times.indices.foreach(key => queue.add(key.toLong, times(key)))
    queue
  }
}

object TimerQueueFillBench {
  final val Size = 1000000
}
