package io.pillarbox.bench

import io.pillarbox.mailbox.{Mail, MailboxProcessor, TaskMailbox, ThrowingRunnable}
import org.apache.flink.streaming.runtime.tasks.mailbox.{
  Mail => FlinkMail,
  MailboxDefaultAction => FlinkDefaultAction,
  MailboxProcessor => FlinkProcessor,
  TaskMailbox => FlinkMailbox,
  TaskMailboxImpl
}
import org.apache.flink.util.function.{RunnableWithException, ThrowingRunnable => FlinkRunnable}

/** A mailbox whose mailbox thread is the one that makes the peer. Every mail counts `runs` up by one. */
trait MailboxPeer {

  /** Any thread. */
  def put(): Unit

  /** Sleeps until there is mail, and runs one. */
  def takeAndRun(): Unit

  /** Makes a batch of what there is, and runs it; the number of mails. */
  def runBatch(): Int

  def runs: Long
}

/** A loop over an idle mailbox whose default action does next to nothing. */
trait MailLoopPeer {

  /** Runs the default action `turns` times. */
  def run(turns: Int): Unit

  /** Any thread: sends a mail that does nothing. */
  def send(): Unit
}

object MailboxPeer {
  def of(name: String): MailboxPeer = if (name == "flink") new OfFlink else new OfPillarbox

  def loopOf(name: String): MailLoopPeer = if (name == "flink") new LoopOfFlink else new LoopOfPillarbox

  private final class OfFlink extends MailboxPeer {
    private val mailbox = new TaskMailboxImpl(Thread.currentThread())
    private var count = 0L
    private val command: FlinkRunnable[Exception] = () => count += 1
    private val noArguments = Array.empty[Object]

    override def put(): Unit = mailbox.put(new FlinkMail(command, 0, "mail", noArguments: _*))
    override def takeAndRun(): Unit = mailbox.take(FlinkMailbox.MIN_PRIORITY).run()
    override def runs: Long = count

    override def runBatch(): Int = {
      var ran = 0
      if (mailbox.createBatch()) {
        var next = mailbox.tryTakeFromBatch()
        while (next.isPresent) {
          next.get.run()
          ran += 1
          next = mailbox.tryTakeFromBatch()
        }
      }
      ran
    }
  }

  private final class OfPillarbox extends MailboxPeer {
    private val mailbox = new TaskMailbox(Thread.currentThread())
    private var count = 0L
    private val command: ThrowingRunnable = () => count += 1

    override def put(): Unit = mailbox.put(new Mail(command, 0, "mail"))
    override def takeAndRun(): Unit = mailbox.take(TaskMailbox.MinPriority).run()
    override def runs: Long = count

    override def runBatch(): Int = {
      var ran = 0
      if (mailbox.createBatch()) {
        var next = mailbox.tryTakeFromBatch()
        while (next ne null) {
          next.run()
          ran += 1
          next = mailbox.tryTakeFromBatch()
        }
      }
      ran
    }
  }

  private final class LoopOfFlink extends MailLoopPeer {
    private var left = 0
    private val action: FlinkDefaultAction = _ => turn()
    private val processor = new FlinkProcessor(action)
    private val executor = processor.getMainMailboxExecutor
    private val nothing: RunnableWithException = () => ()

    private def turn(): Unit = {
      left -= 1
      if (left == 0) processor.suspend()
    }

    override def run(turns: Int): Unit = {
      left = turns
      processor.runMailboxLoop()
    }

    override def send(): Unit = executor.execute(nothing, "mail")
  }

  private final class LoopOfPillarbox extends MailLoopPeer {
    private var left = 0
    private val processor: MailboxProcessor = new MailboxProcessor(_ => turn())
    private val executor = processor.mailboxExecutor(TaskMailbox.MinPriority)
    private val nothing: ThrowingRunnable = () => ()

    private def turn(): Unit = {
      left -= 1
      if (left == 0) processor.suspend()
    }

    override def run(turns: Int): Unit = {
      left = turns
      processor.runMailboxLoop()
    }

    override def send(): Unit = executor.execute(nothing, "mail")
  }
}
