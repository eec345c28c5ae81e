package io.pillarbox.bench

import org.openjdk.jmh.annotations._

/**
 * The loop of a task: what a turn costs when there is no mail, and when another thread sends now and then.
 */
class MailLoopBench extends PeerBench {
  import MailLoopBench._

  @Param(Array("0", "10000"))
  var mailsPerSecond: Int = _

  private var loop: MailLoopPeer = _
  private var sender: Option[Sender] = None

  @Setup
  def setUp(): Unit = {
    loop = MailboxPeer.loopOf(of)
    if (mailsPerSecond > 0) sender = Some(new Sender(() => loop.send()).steadily(mailsPerSecond))
  }

  @TearDown
  def tearDown(): Unit = sender.foreach(_.close())

  @Benchmark
  @OperationsPerInvocation(Turns)
  def turn(): Unit = loop.run(Turns)
}

object MailLoopBench {
  final val Turns = 100000
}
