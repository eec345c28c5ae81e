package io.pillarbox.bench

import org.openjdk.jmh.annotations._

/** The whole operator: a record in, its call answered, its row out. */
class AsyncOperatorBench extends PeerBench {
  import AsyncOperatorBench._

  @Param(Array("ordered", "unordered"))
  var queue: String = _

  @Param(Array("same thread", "executor"))
  var answers: String = _

  private var operator: AsyncOperatorPeer = _

  @Setup
  def setUp(): Unit =
    operator = AsyncOperatorPeer.of(of, queue == "ordered", Capacity, answers == "executor")

  @TearDown
  def tearDown(): Unit = operator.close()

  @Benchmark
  @OperationsPerInvocation(Records)
  def record(): Long = {
    var left = Records
    while (left > 0) {
      operator.process()
      left -= 1
    }
    operator.emitted
  }
}

object AsyncOperatorBench {
  private val Capacity = 100
  final val Records = 1000
}
