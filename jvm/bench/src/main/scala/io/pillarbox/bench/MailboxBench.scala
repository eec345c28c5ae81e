package io.pillarbox.bench

import org.openjdk.jmh.annotations._

/** Mail put and taken, on one thread and across two. */
class MailboxBench extends PeerBench {
  import MailboxBench._

  private var mailbox: MailboxPeer = _
  private var sender: Sender = _

  @Setup
  def setUp(): Unit = {
    mailbox = MailboxPeer.of(of)
    sender = new Sender(() => mailbox.put()).onDemand()
  }

  @TearDown
  def tearDown(): Unit = sender.close()

  @Benchmark
  def sameThread(): Unit = {
    mailbox.put()
    mailbox.takeAndRun()
  }

  @Benchmark
  @OperationsPerInvocation(BatchSize)
  def sameThreadBatch(): Int = {
    var i = 0
    while (i < BatchSize) {
      mailbox.put()
      i += 1
    }
    mailbox.runBatch()
  }

  @Benchmark
  @OperationsPerInvocation(Burst)
  def otherThreadBlocking(): Unit = {
    sender.send(Burst)
    var left = Burst
    while (left > 0) {
      mailbox.takeAndRun()
      left -= 1
    }
  }

  /** Sleeps for one mail, then runs what has gathered as a batch, as the loop of a task does. */
  @Benchmark
  @OperationsPerInvocation(Burst)
  def otherThreadBatch(): Unit = {
    sender.send(Burst)
    var left = Burst
    while (left > 0) {
      mailbox.takeAndRun()
      left -= 1 + (if (left > 1) mailbox.runBatch() else 0)
    }
  }
}

object MailboxBench {
  final val BatchSize = 100
  final val Burst = 10000
}
