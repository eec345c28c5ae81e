package io.pillarbox.bench

import java.util.SplittableRandom

import org.openjdk.jmh.annotations._

/**
 * One element put, one completed, what may leave emitted, with a hundred in flight. Those completed are
 * picked at random, but for the ordered queue from the oldest, as otherwise it would just fill up.
 */
class AsyncQueueBench extends PeerBench {
  import AsyncQueueBench._

  @Param(Array("ordered", "unordered"))
  var queue: String = _

  private var peer: AsyncQueuePeer = _
  private var order: Array[Int] = _
  private var turn = 0

  @Setup
  def setUp(): Unit = {
    val ordered = queue == "ordered"
    peer = AsyncQueuePeer.of(of, ordered, InFlight, 4 * InFlight)
    (0 until InFlight).foreach(peer.put)
    order = if (ordered) Array.tabulate(Turns)(_ % InFlight) else shuffledRounds()
  }

  /** Every round completes every slot once, so no element stays in flight for ever. */
  private def shuffledRounds(): Array[Int] = {
    val random = new SplittableRandom(42)
    Array
      .fill(Turns / InFlight)(scala.util.Random.javaRandomToRandom(new java.util.Random(random.nextLong())))
      .flatMap(_.shuffle((0 until InFlight).toVector))
  }

  @Benchmark
  def putCompleteEmit(): Unit = {
    val slot = order(turn & (Turns - 1))
    turn += 1
    peer.complete(slot)
    peer.emitCompleted()
    peer.put(slot)
  }
}

object AsyncQueueBench {
  private val InFlight = 128
  private val Turns = 128 * 128
}
