package io.pillarbox.mailbox

import java.util.concurrent.RejectedExecutionException

/** Sends to and yields from `mailbox` with a fixed priority. */
private[pillarbox] final class MailboxExecutorImpl(mailbox: TaskMailbox, val priority: Int)
    extends MailboxExecutor {

  override def execute(command: ThrowingRunnable, description: String): Unit =
    try mailbox.put(new Mail(command, priority, description))
    catch {
      case closed: MailboxClosedException =>
        throw new RejectedExecutionException(s"'$description' was refused: ${closed.getMessage}", closed)
    }

  override def yieldMail(): Unit = mailbox.run(mailbox.take(priority))

  override def tryYield(): Boolean = {
    val mail = mailbox.tryTake(priority)
    if (mail ne null) mailbox.run(mail)
    mail ne null
  }
}
