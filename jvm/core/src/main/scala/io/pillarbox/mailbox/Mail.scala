package io.pillarbox.mailbox

import java.util.concurrent.Future

/**
 * One action for the mailbox thread. A mail is put into one mailbox, once: it is itself the node of the
 * queue.
 *
 * @param command runs; if it is a `Future` too, dropping the mail cancels it
 * @param senderPriority the priority of the executor that sends it: a downstream operator's is higher, the
 *   task's own is [[TaskMailbox.MinPriority]]
 * @param description for logs and errors
 */
private[pillarbox] final class Mail(
    command: ThrowingRunnable,
    private[mailbox] val senderPriority: Int,
    val options: MailOptions,
    val description: String,
    runner: TaskActionExecutor
) {
  private[mailbox] var next: Mail = _

  /** The number of mails in the inbox from this one down. Lets `size` answer without a walk. */
  private[mailbox] var depth: Int = 0

  /** When it was put, by `System.nanoTime`, if this mail was picked to measure latency; otherwise 0. */
  private[mailbox] var putNanos: Long = 0L

  def this(command: ThrowingRunnable, senderPriority: Int, description: String) =
    this(command, senderPriority, MailOptions.Default, description, TaskActionExecutor.Immediate)

  /** The priority that takers filter by. It hides upstream mail from downstream yields and gives no order. */
  def priority: Int = if (options.deferrable) TaskMailbox.MinPriority else senderPriority

  /** Runs the command on the calling thread, which must be the mailbox thread. */
  @throws[Exception]
  def run(): Unit = runner.run(command)

  /** Cancels the future that waits for this mail, if there is one. */
  def tryCancel(): Unit = command match {
    case future: Future[_] =>
      future.cancel(false)
      ()
    case _ => ()
  }

  override def toString: String = s"$description (${options.toString}, priority $senderPriority)"
}
